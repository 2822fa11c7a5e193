"""The tables of what things cost: rewired junctions, scans, training, the steps of ResidualDroppath."""

from typing import Any

from table_text import origin, table


def junctions(result: dict[str, Any]) -> str:
    """One line per network and device: what a rewired forward costs against the untouched one."""
    head = ["network", "device", "time, rewired / untouched", "interval", "capture, seconds"]
    rows = [
        [
            f"`{row['network']}`",
            row["device"],
            f"{row['ratio']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{row['capture_seconds']:.2f}",
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def scan(result: dict[str, Any]) -> str:
    """One line per tool and device: what it costs against the plain forward, and how exact it is."""
    head = ["tool", "device", "time / plain forward", "time / winze's", "extra memory", "error"]
    head += ["error, mean 100x the spread", "how"]
    rows = [
        [
            " ".join([row["tool"], row.get("version", "")]).strip(),
            row["device"],
            interval(row),
            f"{interval(row['beside'])}, {row['beside']['pairs']} pairs" if row.get("beside") else "-",
            held(row),
            size(row.get("error")),
            size(row.get("error_offset")),
            "; ".join(text for text in (row.get("how"), said(row), row.get("note")) if text),
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def scan_networks(result: dict[str, Any]) -> str:
    """One line per network, measure and number of images: a scan against the best plain forward."""
    head = ["network, measures, images", "device", "time / plain forward", "seconds of the forward", "extra memory"]
    rows = [
        [
            row["row"],
            row["device"],
            f"{row['less_15_s']:.2f} after 15 s" if "less_15_s" in row else said_pairs(row),
            f"{row['seconds']:.2f}",
            held(row),
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def said_pairs(row: dict[str, Any]) -> str:
    """A ratio with its interval and the number of pairs; one pair has no interval."""
    return f"{interval(row)}, {row['pairs']} pairs" if row["pairs"] > 1 else f"{row['ratio']:.2f}, 1 pair"


def held(row: dict[str, Any]) -> str:
    """The extra memory of a row, and between what several processes took."""
    if row.get("extra_mb") is None:
        return "-"
    low, high = (f"{row.get(name, row['extra_mb']):.0f}" for name in ("extra_low", "extra_high"))
    return f"{row['extra_mb']:.0f} MB" + (f" [{low} to {high}]" if low != high else "")


def train(result: dict[str, Any]) -> str:
    """One line per way to train: images per second, or seconds, against a hand-written loop."""
    head = ["network", "device", "how", "processes", "images/s", "ratio"]
    rows = [
        [
            row["network"],
            row["device"],
            row["how"],
            row["processes"],
            f"{row['images_per_second']:,}" if "images_per_second" in row else "-",
            f"{row['ratio']:.1f} x the speed" if "images_per_second" in row else f"{interval(row)} x the time",
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def step_costs(result: dict[str, Any]) -> str:
    """One line per network and way to run the rules: time and memory of a training step against the plain one."""
    head = ["network", "way", "steps", "batch", "time", "stage 1", "stage 2", "memory", "stage 1", "stage 2"]
    rows = []
    for row in result["rows"]:
        stages = [f"{row[name]:.2f}" if name in row else "-" for name in ("stage1", "stage2")]
        used = [row.get(f"memory{stage}") for stage in ("", "_stage1", "_stage2")]
        memory = ["-" if most is None else f"{most / row['memory_plain']:.2f}" for most in used]
        rows.append([row["network"], row["way"], row["how"], row["batch"], f"{interval(row)} x", *stages, *memory])
    return table(head, rows, origin(result))


def spiral(result: dict[str, Any]) -> str:
    """One line per network and algorithm: how much faster its seeds train side by side than one after the other."""
    head = ["network", "device", "networks", "steps", "speed", "seconds one after the other"]
    rows = [
        [
            row["network"],
            row["device"],
            row["networks"],
            row["steps"],
            f"{1 / row['ratio']:.1f} x [{1 / row['high']:.1f}-{1 / row['low']:.1f}]",
            f"{row['seconds']:.1f}",
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def generative(result: dict[str, Any]) -> str:
    """One line per network and way to take steps, or to draw images."""
    head = ["network", "device", "how", "images per second", "against plain steps", "seconds per 50,000 images"]
    rows = []
    for row in result["rows"]:
        rate = row.get("images_per_second") or row["images"] / row["seconds"]
        against = f"{row['ratio']:.2f}x" if "seconds_per_50k" in row else "–"
        rows.append([row["network"], row["device"], row["how"], f"{rate:,.0f}", against, f"{50_000 / rate:.2f}"])
    return table(head, rows, origin(result))


def cut(result: dict[str, Any]) -> str:
    """One line per network and device: what cutting its tunnel off costs and saves."""
    head = ["network", "device", "cut after", "accuracy", "of the cut", "weights", "operations"]
    head += ["time, one image", "time, 256 images", "best layer for OOD data", "OOD accuracy over the last"]
    rows = [
        [
            f"`{row['network']}`",
            row["device"],
            f"{row['start']} of {row['places']}",
            *(f"{100 * row[name]:.1f} %" for name in ("accuracy", "accuracy_cut")),
            *(f"{100 * row[name]:.0f} %" for name in ("parameters", "flops")),
            *(f"{interval(row[f'time_{batch}'])} x" for batch in (1, 256)),
            f"{row['best_for_other']} of {row['places']}",
            f"{100 * (row['other'] - row['other_last']):+.0f} points",
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def interval(row: dict[str, Any]) -> str:
    """A ratio with its interval, where there is one."""
    if row.get("ratio") is None:
        return "-"
    ends = f" [{row['low']:.2f}-{row['high']:.2f}]" if row.get("low") is not None else ""
    return f"{row['ratio']:.2f}{ends}"


def size(error: float | None) -> str:
    """An error in one or two digits."""
    return "-" if error is None else f"{error:.1g}" if error < 0.01 else f"{error:.2f}"


def said(row: dict[str, Any]) -> str:
    """On how much a row was measured."""
    if not row.get("images"):
        return ""
    pairs = f", {row['pairs']} pairs" if row.get("ratio") is not None else ""
    return f"{row['places']} places, {row['images']} images{pairs}"


def meta(result: dict[str, Any]) -> str:
    """One line per number of unrolled steps: memory of the plain graph and of recomputed segments."""
    found = {(row["device"], row["steps"], bool(row["segment"])): row for row in result["rows"]}
    head = ["inner steps", "device", "plain, MB", "recomputed, MB", "predicted, MB", "seconds, plain and recomputed"]
    rows = []
    for (device, steps, recomputed), row in found.items():
        if recomputed and (device, steps, False) in found:
            plain = found[device, steps, False]
            predicted, seconds = (f"{plain[key]:.4g} and {row[key]:.4g}" for key in ("predicted", "seconds"))
            rows.append([steps, device, f"{plain['megabytes']:.4g}", f"{row['megabytes']:.4g}", predicted, seconds])
    return table(head, rows, origin(result))
