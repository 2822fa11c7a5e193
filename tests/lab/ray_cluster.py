"""A cluster of two nodes on this machine: a scan in shards, then a sweep in the middle of which one node is killed.

A script of its own, since Ray warns more than the tests allow. Prints what happened as JSON.
"""

import json
import logging
import os
import sys
import threading
import time
from pathlib import Path

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_health_check_period_ms="500", RAY_health_check_timeout_ms="20000")

import lasting_work
import torch
from lasting_work import Lasting, jobs, marked
from ray.cluster_utils import Cluster

import winze
from winze.lab.runs.sweep import sweep
from winze.lab.workers import ray as on_ray
from winze.lab.workers.ray import OnRay
from winze.train import Hardware


def main(folder):
    torch.set_num_threads(1)
    logging.getLogger("ray").setLevel(logging.ERROR)
    on_ray.SECONDS = 120.0  # a busy machine takes its time to import Ray, and more so to answer
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    os.environ["RAY_ADDRESS"] = cluster.address
    told = {"scan": scanned(), "shares": shared()}
    marks = folder / "marks.txt"
    todo = jobs(marks, 4, seconds=1.0)
    killer = threading.Thread(target=kill, args=(cluster, doomed, marks, told))
    killer.start()
    outcomes = sweep(todo, folder / "runs", on="ray", recipe=Lasting(), hardware=Hardware(accelerator="cpu"))
    killer.join()
    told["errors"] = [outcome.error for outcome in outcomes]
    told["marks"] = marked(marks)
    sys.stdout.write(json.dumps(told) + "\n")
    cluster.shutdown()


def kill(cluster, doomed, marks, told):
    """Kill the second node once a run has begun there."""
    while not any(what == "begin" and where == doomed.node_id for what, _, where in marked(marks)):
        time.sleep(0.05)
    cluster.remove_node(doomed, allow_graceful=False)
    told["doomed"] = doomed.node_id


def scanned():
    """The largest difference between a scan on the cluster and one here."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(200, 8, generator=generator), torch.arange(200) % 3
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()) for _ in range(3)))
    with OnRay(gpu=False) as crew:
        size = crew.size
        sharded = winze.scan(net, (x[:120], y[:120]), (x[120:], y[120:]), places="layers", batch=20, crew=crew)
    whole = winze.scan(net, (x[:120], y[:120]), (x[120:], y[120:]), places="layers", batch=20)
    rows = zip(sharded.readings.rows, whole.readings.rows, strict=True)
    apart = [abs(a.value - b.value) / max(1.0, abs(b.value)) for a, b in rows if b.value == b.value]
    return {"size": size, "apart": max(apart), "values": len(apart)}


def shared():
    """How many tasks one GPU takes at a time, and what each of them is given of it; Ray only counts GPUs."""
    with OnRay(2) as crew:
        given = [value for _, value in crew.each(lasting_work.resources, range(3))]
        return {"size": crew.size, "given": given}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
