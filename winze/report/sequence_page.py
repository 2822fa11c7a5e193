"""The page of a sequence of tasks: accuracy matrix, accuracy during training, and features over depth and tasks."""

from __future__ import annotations

import os
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from winze.atomic import write_atomically
from winze.measure import task_accuracy as lost
from winze.readings import Readings, ReadingsError
from winze.readings.wording import label, number, percent
from winze.report import style
from winze.report.experiment.static_page import Section, picture, section, write_static
from winze.report.scan.profile import depth_axis
from winze.report.scan.summary import after_each_task, sequence_findings
from winze.report.scan.tables import conventions_table, hidden, table

if TYPE_CHECKING:
    import matplotlib.figure

NOTES = {
    "matrix": "R[t, k]: accuracy on task k after training on task t. Below the diagonal: what is kept of earlier "
    "tasks. Above it: tasks not yet trained on.",
    "curves": "One line per task; vertical lines are task switches.",
    "cka_drift": "1 - CKA between the features after task 1 and after each later task, on test samples of task 1. "
    "Bright layers moved.",
    "probe": "Linear probes on the data of task 1 after each task: what the features still hold of it.",
    "numerical_rank": "Numerical rank of the features on the data of task 1 after each task.",
}


def write_sequence(readings: Readings, file: str | os.PathLike[str]) -> Path:
    """Write the page of a sequence of tasks; its figures lie beside it as SVG and PNG."""
    if "accuracy_matrix" not in readings.arrays:
        raise ReadingsError("a page of a sequence needs its accuracy matrix")
    target, told = Path(file), readings.conventions
    target.parent.mkdir(parents=True, exist_ok=True)
    matrix = readings.arrays["accuracy_matrix"]
    parts = [_summary(readings)]
    drawn = [("matrix", "Accuracy matrix", lambda theme: matrix_figure(readings, theme), _matrix_table(readings))]
    if len(readings.arrays.get("curves", ())):
        drawn.append(("curves", "Accuracy during training", lambda theme: curves_figure(readings, theme), ""))
    for measure, draw in (("cka_drift", drift_figure), ("probe", lines_figure), ("numerical_rank", lines_figure)):
        if any(row.measure == measure and row.index is not None for row in readings.rows):
            titles = {"cka_drift": "Drift over depth and tasks", "probe": "Probes of task 1 over depth"}
            drawn.append(
                (
                    measure,
                    titles.get(measure, f"{label(measure).capitalize()} over depth"),
                    lambda theme, draw=draw, measure=measure: draw(readings, measure, theme),  # type: ignore[misc]
                    _profile_table(readings, measure),
                )
            )
    folder = target.with_name(f"{target.stem}_figures")
    for key, title, made, values in drawn:
        parts.append(_figure(key, title, made, values, folder))
    parts.append(section("conventions", "Conventions", conventions_table({"sequence": readings})))
    many = f"{len(matrix)} tasks, {told.get('incremental', '')}-incremental"
    subtitle = escape(f"{told.get('network', '')} on {told.get('data', '')}: {many}")
    return write_static(target, "What the network keeps from task to task", subtitle, parts)


def matrix_figure(readings: Readings, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the accuracy matrix with its numbers."""
    matrix = 100 * readings.arrays["accuracy_matrix"]
    count = len(matrix)
    with style.use(theme):
        side = min(6.4, 2.0 + 0.55 * count)
        drawing = style.figure(side + 1, side)
        axes = drawing.subplots()
        image = axes.imshow(matrix, vmin=0, vmax=100, cmap="viridis")
        for after, task in np.ndindex(matrix.shape):
            value = matrix[after, task]
            ink = "#000000" if value > 60 else "#ffffff"
            if count <= 12:
                axes.text(task, after, f"{value:.0f}", ha="center", va="center", color=ink, fontsize=8)
        ticks = range(0, count, max(1, count // 10))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(list(ticks), [str(spot + 1) for spot in ticks])
        axes.set(xlabel="accuracy on task", ylabel="after training on task", title="accuracy, %")
        axes.grid(False)
        drawing.colorbar(image, ax=axes, shrink=0.85).outline.set_visible(False)
        return drawing


def curves_figure(readings: Readings, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the accuracy on every task at every evaluation; vertical lines are task switches."""
    curves, names = readings.arrays["curves"], readings.conventions["tasks"]
    with style.use(theme) as colours:
        drawing = style.figure()
        axes = drawing.subplots()
        for spot, (name, colour) in enumerate(zip(names, colours.ramp_colours(len(names)), strict=True)):
            look: Any = {"color": colour, "marker": style.MARKERS[spot % len(style.MARKERS)]}
            axes.plot(curves[:, 0], curves[:, 2 + spot], label=name, markevery=style.sparse(len(curves)), **look)
        for switch in np.flatnonzero(np.diff(curves[:, 1])):
            axes.axvline(curves[switch, 0], color=colours.faint, lw=0.8, ls=":")
        axes.set(xlabel="training step", ylabel="test accuracy", ylim=(-0.02, 1.02))
        style.legend(drawing, columns=6)
        return drawing


def drift_figure(readings: Readings, measure: str = "cka_drift", theme: str = "light") -> matplotlib.figure.Figure:
    """Draw the drift of every place after every task as a map."""
    values = after_each_task(readings, measure)
    count, places = values.shape
    with style.use(theme) as colours:
        drawing = style.figure(6.4, min(5.0, 1.6 + 0.4 * count))
        axes = drawing.subplots()
        axes.set_facecolor(colours.shade)
        extent = (0.5, places + 0.5, count + 0.5, 0.5)
        image = axes.imshow(values, vmin=0, vmax=1, cmap="viridis", aspect="auto", extent=extent)
        axes.set_yticks(range(1, count + 1))
        axes.set(xlabel="layer", ylabel="after task")
        axes.grid(False)
        depth_axis(axes, np.arange(1, places + 1), bottom=False)
        drawing.colorbar(image, ax=axes, label="drift, 1 - CKA").outline.set_visible(False)
        return drawing


def lines_figure(readings: Readings, measure: str, theme: str = "light") -> matplotlib.figure.Figure:
    """Draw a measure on the first task's data over depth, one line per task trained so far."""
    values = after_each_task(readings, measure)
    with style.use(theme) as colours:
        drawing = style.figure()
        axes = drawing.subplots()
        layers = np.arange(1, values.shape[1] + 1)
        for after, (curve, colour) in enumerate(zip(values, colours.ramp_colours(len(values)), strict=True), 1):
            marker = style.MARKERS[(after - 1) % len(style.MARKERS)]
            axes.plot(layers, curve, color=colour, marker=marker, label=f"after task {after}")
        axes.set(xlabel="layer", ylabel=label(measure))
        depth_axis(axes, layers, bottom=False)
        style.legend(drawing, columns=6)
        return drawing


def _figure(
    key: str, title: str, draw: Callable[[str], matplotlib.figure.Figure], values: str, folder: Path
) -> Section:
    light = draw("light")
    bodies = {kind: style.rendered(light, kind) for kind in ("svg", "png")}
    folder.mkdir(parents=True, exist_ok=True)
    for kind, body in bodies.items():
        write_atomically(folder / f"{key}.{kind}", body)
    inner = picture(bodies["svg"], style.rendered(draw("dark")), f"{title}; {NOTES[key]}")
    return section(key, title, inner + f"<p>{escape(NOTES[key])}</p>" + (hidden(values) if values else ""))


def _summary(readings: Readings) -> Section:
    said = sequence_findings(readings)
    return section("summary", "Summary", "<ul>" + "".join(f"<li>{escape(one)}</li>" for one in said) + "</ul>")


def _matrix_table(readings: Readings) -> str:
    matrix, names = readings.arrays["accuracy_matrix"], readings.conventions["tasks"]
    rows = [["before task 1", *map(percent, readings.arrays["accuracy_before"])]]
    rows += [[f"after {name}", *map(percent, row)] for name, row in zip(names, matrix, strict=True)]
    rows.append(["forgetting", *(f"{100 * one:.1f}" for one in lost.forgetting(matrix))])
    return table("Accuracy on every task", ["", *names], rows)


def _profile_table(readings: Readings, measure: str) -> str:
    values, names = after_each_task(readings, measure), readings.conventions["places"]
    heads = ["layer", "place", *(f"after task {after + 1}" for after in range(len(values)))]
    rows = [[str(i + 1), name, *map(number, map(float, values[:, i]))] for i, name in enumerate(names)]
    return table(f"{label(measure)} on the data of task 1", heads, rows)
