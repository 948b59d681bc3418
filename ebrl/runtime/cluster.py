"""The Dask cluster of a run: one worker process per stage replica, each with its own annotations.

Locally the scheduler lives in the driver's process and stage workers are Nannies beside it. With an
address, the scheduler is somebody else's and the Nannies live in the node agents that `join` starts, one
per machine. Nothing listens beyond loopback unless an address asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker
from typing import Any

import attrs
import dask
from distributed import Client, Future, LocalCluster, Nanny, Worker, get_worker, wait

from ebrl.errors import EbrlError, UsageError
from ebrl.resources.pool import ResourcePool
from ebrl.runtime import tasks
from ebrl.runtime.main_script import refuse_without_guard
from ebrl.runtime.scheduler_address import ANSWER_S, knock, no_scheduler
from ebrl.runtime.scratch import scratch_folder
from ebrl.runtime.stage_nanny import StageNanny

NODE = "ebrl-node"
"""Resource of a node agent: a worker that launches stage workers on its machine and runs no stage."""

_ANSWER_S = 60.0  # for a node agent to start workers
_CLOSE_S = 5.0  # for the workers of a run to end their engines
_LEASE_S = 1.0  # how often a node agent looks whether the run of its workers is still there

_QUIET = {
    # An idle cluster of three workers costs 16 % of a core with the default settings, 4 % with these.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.worker.memory.monitor-interval": "2s",
    # A resource that no worker has must not wait for ever.
    "distributed.scheduler.no-workers-timeout": "180s",
    "distributed.scheduler.allowed-failures": 5,
    "distributed.comm.timeouts.connect": "30s",
    # It leaves one copy of the weights, of all places at who generates with them: lost with that worker.
    "distributed.scheduler.active-memory-manager.start": False,
}


@attrs.define(frozen=True, kw_only=True)
class WorkerSpec:
    """A Dask worker for one stage replica."""

    name: str
    resources: Mapping[str, float]
    threads: int
    """Tasks that may run at once: credits that wait beside the one that is served."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    memory_mib: int | None = None


class Cluster:
    """Context manager. `client` is connected between `__enter__` and `__exit__`."""

    def __init__(self, scheduler: str | None = None, resources: ResourcePool | None = None) -> None:
        self._scheduler = scheduler
        self._resources = resources
        self._nannies: dict[str, Nanny] = {}
        self._remote: dict[str, str] = {}
        self._leases: dict[str, Future[Any]] = {}
        self._stack = contextlib.ExitStack()
        self.client: Client
        self.folder = ""

    def __enter__(self) -> Cluster:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dashboard_link(self) -> str:
        link: str = self.client.dashboard_link
        return link

    def pools(self) -> dict[str, ResourcePool]:
        """What every node offers; the key of the driver's own machine is empty."""
        if self._scheduler is None:
            return {"": self._resources or ResourcePool.discover()}
        return {address: self._on_node(address, ResourcePool.discover) for address in self._agents()}

    def launch(self, specs: Mapping[str, list[WorkerSpec]]) -> None:
        """Start the workers of every node and wait until they are connected."""
        scheduler = str(self.client.scheduler_info(n_workers=0)["address"])
        for node, wanted in specs.items():
            if node == "":
                self._on_loop(_launch, scheduler, wanted, self.folder, self._nannies)
                continue
            self._remote |= dict.fromkeys((spec.name for spec in wanted), node)
            lease = f"ebrl-lease-{secrets.token_hex(8)}"
            self._leases[node] = self._submit(node, _launch_here, scheduler, wanted, lease, key=lease)
        for node, started in self._leases.items():
            self._answer(node, started)

    def addresses(self) -> dict[str, str]:
        """Worker name -> address, of all workers that are connected."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {info["name"]: address for address, info in workers.items()}

    def close(self) -> None:
        """End all workers of the run, in order where they answer and by force where they do not."""
        if (self._nannies or self._remote) and self.client.status == "running":
            with contextlib.suppress(Exception):
                self._on_loop(_end_engines, self.client, self._own_workers())
            with contextlib.suppress(Exception):
                self._on_loop(_close, self._nannies.values())
            names = defaultdict(list)
            for name, node in self._remote.items():
                names[node].append(name)
            with contextlib.suppress(Exception):
                wait([self._submit(node, _close_here, names[node]) for node in names], timeout=2 * _CLOSE_S)
        self._nannies, self._remote, self._leases = {}, {}, {}
        self._stack.close()

    def _on_loop(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a coroutine function on the client's event loop, where Nannies live."""
        sync: Callable[..., Any] = self.client.sync
        return sync(function, *args)

    def _on_node(self, node: str, function: Callable[..., Any], *args: Any) -> Any:
        """The result of a task of the node agent at address `node`."""
        return self._answer(node, self._submit(node, function, *args))

    def _submit(self, node: str, function: Callable[..., Any], *args: Any, key: str | None = None) -> Future[Any]:
        return self.client.submit(function, *args, workers=[node], resources={NODE: 1}, pure=False, key=key)

    def _answer(self, node: str, future: Future[Any]) -> Any:
        try:
            return future.result(_ANSWER_S)
        except TimeoutError:
            raise EbrlError(
                f"the node at {node} did not answer within {_ANSWER_S:.0f} s",
                hint=f"see whether its `ebrl worker {self._scheduler}` still runs",
            ) from None

    def _own_workers(self) -> list[str]:
        names = {*self._nannies, *self._remote}
        return [address for name, address in self.addresses().items() if name in names]

    def kill(self) -> None:
        """End the workers of this machine now, without asking."""
        for nanny in self._nannies.values():
            nanny.close_gracefully()  # its word for: do not start the worker again
            if nanny.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(nanny.pid, signal.SIGKILL)
        self._nannies = {}

    def _open(self) -> None:
        self._stack.enter_context(dask.config.set(_QUIET))
        self.folder = self._stack.enter_context(scratch_folder())
        for name in ("distributed", "tornado"):
            logger = logging.getLogger(name)
            before = logger.level
            logger.setLevel(logging.CRITICAL)
            self._stack.callback(logger.setLevel, before)
        if self._scheduler is not None:
            self._connect(self._scheduler)
            return
        refuse_without_guard()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a busy dashboard port is not worth a warning: the real link is shown
            cluster = LocalCluster(
                n_workers=0,
                host="127.0.0.1",
                scheduler_port=0,
                dashboard_address="127.0.0.1:8787",
                silence_logs=logging.CRITICAL,
            )
        self._stack.callback(cluster.close, timeout=5)
        self.client = Client(cluster, set_as_default=False)
        self._stack.callback(self.client.close, timeout=5)
        self._on_loop(_shield)

    def _connect(self, address: str) -> None:
        with ThreadPoolExecutor(1) as thread:  # this one may have an event loop already, in a notebook
            thread.submit(asyncio.run, knock(address)).result()
        try:
            self.client = Client(address, timeout=ANSWER_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise no_scheduler(address, error) from None
        self._stack.callback(self.client.close, timeout=5)
        self.client.amm.stop()  # as in _QUIET

    def _agents(self) -> list[str]:
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        agents = [address for address, info in workers.items() if NODE in info["resources"]]
        if not agents:
            raise UsageError(
                f"the cluster at {self._scheduler} has {len(workers)} worker(s), none of which is an EBRL node",
                hint=f"on every machine run: ebrl worker {self._scheduler}",
            )
        return agents


def join(address: str) -> None:
    """Offer this machine to the cluster at `address`, until the scheduler ends or Ctrl-C."""
    pool = ResourcePool.discover()

    async def serve() -> None:
        resources = {"CPU": float(len(pool.cores)), "GPU": float(len(pool.gpus)), NODE: 1_000.0}
        loop = asyncio.get_running_loop()
        name = f"node-{os.uname().nodename}-{os.getpid()}"
        await knock(address)
        async with Worker(address, nthreads=4, name=name, resources=resources, death_timeout=30) as worker:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, lambda: asyncio.ensure_future(worker.close(reason="asked to leave")))
            print(f"joined {address} as {worker.name} with {len(pool.cores)} cores and {len(pool.gpus)} GPUs")
            await worker.finished()

    with dask.config.set(_QUIET):
        asyncio.run(serve())


async def _shield() -> None:
    """What this thread starts from now on is deaf to Ctrl-C, which is for the driver, until it says otherwise: see
    `ebrl.runtime.preload`."""
    resource_tracker.ensure_running()  # it unblocks the signal in the thread that starts it
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


async def _launch(scheduler: str, specs: list[WorkerSpec], folder: str, started: dict[str, Nanny]) -> None:
    """Start workers; they are in `started` before they run, so that whoever interrupts this can end them."""
    nannies = {
        spec.name: StageNanny(
            scheduler,
            name=spec.name,
            threads=spec.threads,
            resources=dict(spec.resources),
            environment=dict(spec.environment),
            memory_mib=spec.memory_mib,
            folder=folder,
        )
        for spec in specs
    }
    started |= nannies
    # A Nanny that is cancelled in the middle loses its process.
    await asyncio.shield(asyncio.gather(*nannies.values()))


async def _end_engines(client: Client, workers: list[str]) -> None:
    await asyncio.wait_for(client.run(tasks.close, workers=workers, on_error="ignore"), _CLOSE_S)


async def _close(nannies: Iterable[Nanny]) -> None:
    async def close(nanny: Nanny) -> None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(nanny.start(), 2 * _CLOSE_S)  # one that is still starting cannot be stopped
        await nanny.close(timeout=2, reason="the run has ended")

    await asyncio.gather(*map(close, nannies), return_exceptions=True)


_hosted: dict[str, Nanny] = {}  # of a node agent


async def _launch_here(scheduler: str, specs: list[WorkerSpec], lease: str) -> None:
    """Start workers on this node; they end when nobody wants the result of this task, `lease`, any more.

    The scheduler forgets what only a lost client wanted, so that a driver that was killed leaves nothing.
    """
    worker = get_worker()
    try:
        await _launch(scheduler, specs, worker.local_directory, _hosted)
    finally:
        worker.loop.add_callback(_close_after, worker, lease, [spec.name for spec in specs])


async def _close_after(worker: Worker, lease: str, names: list[str]) -> None:
    await asyncio.sleep(_LEASE_S)
    while lease in worker.data:
        await asyncio.sleep(_LEASE_S)
    await _close_here(names)


async def _close_here(names: list[str]) -> None:
    await _close([_hosted.pop(name) for name in names if name in _hosted])
