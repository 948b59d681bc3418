from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from typer.testing import CliRunner, Result

import ebrl
from ebrl import cli
from ebrl.errors import EbrlError, Interrupted, StageError, UsageError
from ebrl.graph.load import load_workflow
from ebrl.graph.model import Graph
from ebrl.graph.plan import Plan
from ebrl.graph.schedules import SCHEDULES
from ebrl.observe.events import Event
from ebrl.observe.records import write_json
from ebrl.observe.run_config import RunConfig
from ebrl.observe.run_directory import RunDirectory
from ebrl.planner.first_plan import first_plan
from ebrl.planner.profile import Profile, read_profile
from ebrl.resources.pool import ResourcePool
from ebrl.runtime.described import described

from .planner.profiles import made

FLOW = """
    from __future__ import annotations
    from collections.abc import Iterator
    import ebrl

    @ebrl.simulation
    def simulate(env: ebrl.Simulator, chunk: ebrl.ActionChunk) -> Iterator[ebrl.Step]:
        for action in chunk:
            yield env.step(action)

    @ebrl.generation
    def generate(
        policy: ebrl.Policy, observations: ebrl.Batch[ebrl.Observation], weights: ebrl.Weights
    ) -> ebrl.Batch[ebrl.ActionChunk]:
        return policy.act(observations)

    @ebrl.training
    def train(policy: ebrl.Policy, trajectories: ebrl.Batch[ebrl.Trajectory]) -> ebrl.Weights:
        ...

    @ebrl.workflow
    def pendulum(num_envs: int = 4, max_staleness: int = 1):
        policy = ebrl.policy("mlp")
        actions = ebrl.stream(ebrl.ActionChunk)
        weights = ebrl.latest(ebrl.Weights, max_staleness=max_staleness)
        observations, trajectories = simulate("gymnasium:Pendulum-v1", actions, num_envs=num_envs)
        actions <<= generate(policy, observations, weights)
        weights <<= train(policy, trajectories)
"""


class FakeLaunch:
    """Stands in for `ebrl.launch`: remembers how it was called, gives `events`, raises `error`."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.graph: Graph | None = None
        self.options: dict[str, Any] = {}

    def __call__(self, graph: Graph, **options: Any) -> FakeLaunch:
        self.graph, self.options = graph, options
        return self

    def __enter__(self) -> FakeLaunch:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __iter__(self) -> Iterator[int]:
        plan = Plan(workflow="pendulum", stages=(), loops=())
        self.emit("started", plan=plan, dashboard_link="http://127.0.0.1:8787/status", run_dir="runs/x", workers={})
        self.emit("iteration", iteration=1, env_steps=256)
        yield 1
        if self.error is not None:
            raise self.error
        self.emit("finished", status="finished", success=0.5, wall_s=3.0, checkpoint="runs/x/checkpoints/1")

    def emit(self, kind: str, **data: Any) -> None:
        for observer in self.options["observers"]:
            observer(Event.now(kind, **data))


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "flow.py"
    path.write_text(textwrap.dedent(FLOW))
    yield path
    sys.modules.pop("flow", None)


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeLaunch]:
    def replace(error: BaseException | None = None) -> FakeLaunch:
        fake = FakeLaunch(error)
        monkeypatch.setitem(vars(ebrl), "launch", fake)
        return fake

    return replace


def ebrl_command(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def kept(config: RunConfig, path: Path) -> Path:
    """The directory of a run that was started and stopped."""
    with RunDirectory.claim(config.workflow, path) as run:
        run.begin(config)
    return path


def process(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own, as a user runs it."""
    return subprocess.run(
        [sys.executable, "-c", "from ebrl.cli import main; main()", *map(str, arguments)],
        cwd=folder, capture_output=True, text=True, timeout=100,
    )  # fmt: skip


def test_version() -> None:
    result = ebrl_command("--version")
    assert (result.exit_code, result.stdout) == (0, "ebrl 0.1.0\n")


@pytest.mark.parametrize(
    "arguments", [["rum"], ["run", "--speed", "9"], ["run", "flow.py", "--seed", "x"], ["worker"], ["check"]]
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    result = ebrl_command(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_run_prints_iterations_and_the_summary(flow: Path, launch: Callable[..., FakeLaunch]) -> None:
    fake = launch()
    result = ebrl_command("run", flow, "--set", "num_envs=8", "--seed", 7, "--schedule", "sync", "--run-dir", "out")
    assert result.exit_code == 0, result.output
    assert "iteration 1  env steps 256" in result.stdout
    assert "success     50 %" in result.stdout and "checkpoint  runs/x/checkpoints/1" in result.stdout
    assert fake.graph is not None and fake.graph.parameters == {"num_envs": 8, "max_staleness": 1}
    options = {name: value for name, value in fake.options.items() if name != "observers"}
    assert options == {
        "run_dir": Path("out"),
        "schedule": "sync",
        "without": None,
        "scheduler": None,
        "seed": 7,
        "resume": None,
        "plan": None,
        "profile": None,
        "replan": True,
    }


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (StageError("stage 'train' raised", detail="ValueError: no"), 1, "error: stage 'train' raised\n  | ValueErr"),
        (UsageError("nothing fits"), 2, "error: nothing fits\n"),
        (Interrupted("stopped by Ctrl-C"), 130, "stopped by Ctrl-C\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_exit_codes_of_a_run(
    flow: Path, launch: Callable[..., FakeLaunch], error: BaseException, code: int, message: str
) -> None:
    launch(error)
    result = ebrl_command("run", flow)
    assert result.exit_code == code
    assert result.stderr.startswith(message)
    assert "Traceback" not in result.output


def test_unexpected_exception_says_it_is_a_bug(flow: Path, launch: Callable[..., FakeLaunch]) -> None:
    launch(ZeroDivisionError("oh"))
    result = ebrl_command("run", flow)
    assert result.exit_code == 1
    assert "ZeroDivisionError: oh" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("This is a bug in ebrl 0.1.0")


def test_resume_takes_everything_from_the_earlier_run(
    flow: Path, launch: Callable[..., FakeLaunch], tmp_path: Path
) -> None:
    stored = RunConfig(
        workflow="pendulum", file=str(flow), parameters={"num_envs": 6, "max_staleness": 0}, seed=5, schedule="sync"
    )
    earlier = kept(stored, tmp_path / "earlier")
    fake = launch()
    result = ebrl_command("run", "--resume", earlier, "--set", "num_envs=2")
    assert result.exit_code == 0, result.output
    assert fake.graph is not None and fake.graph.parameters == {"num_envs": 2, "max_staleness": 0}
    assert (fake.options["seed"], fake.options["schedule"]) == (5, "sync")
    assert fake.options["resume"] == earlier and fake.options["run_dir"] is None


def test_mechanisms_are_left_out_one_by_one_or_together(flow: Path, launch: Callable[..., FakeLaunch]) -> None:
    fake = launch()
    result = ebrl_command("run", flow, "--without", "rebinding, overlap", "--without", "pipeline")
    assert result.exit_code == 0, result.output
    assert fake.options["without"] == ("pipeline", "overlap", "rebinding")


@pytest.mark.parametrize(
    ("more", "schedule", "without"),
    [
        ([], "hybrid", ("rebinding",)),
        (["--without", "pipeline"], "hybrid", ("pipeline",)),
        (["--schedule", "sync"], "sync", None),
    ],
)
def test_resume_keeps_the_schedule_unless_another_is_named(
    flow: Path, launch: Callable[..., FakeLaunch], more: list[str], schedule: str, without: tuple[str, ...] | None
) -> None:
    stored = RunConfig(workflow="pendulum", file=str(flow), schedule="hybrid", without=("rebinding",))
    kept(stored, Path("earlier"))
    fake = launch()
    result = ebrl_command("run", "--resume", "earlier", *more)
    assert result.exit_code == 0, result.output
    assert (fake.options["schedule"], fake.options["without"]) == (schedule, without)


def test_resume_of_what_is_no_run(flow: Path, tmp_path: Path) -> None:
    result = ebrl_command("run", "--resume", tmp_path / "nothing")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path}/nothing is no run directory: it does not exist")


def test_resume_with_another_workflow(flow: Path) -> None:
    kept(RunConfig(workflow="cartpole", file=str(flow), parameters={"pole": 1}), Path("run"))
    result = ebrl_command("run", "flow.py", "--resume", "run")
    assert result.exit_code == 2
    assert "error: that run is of workflow 'cartpole', not of 'pendulum'" in result.stderr


@pytest.mark.parametrize(
    ("stored", "message"), [("", "was not started from a workflow file"), ("/gone/flow.py", "is gone: /gone/flow.py")]
)
def test_resume_without_the_workflow_file(
    flow: Path, launch: Callable[..., FakeLaunch], stored: str, message: str
) -> None:
    kept(RunConfig(workflow="pendulum", file=stored), Path("run"))
    result = ebrl_command("run", "--resume", "run")
    assert result.exit_code == 2 and message in result.stderr
    fake = launch()
    assert ebrl_command("run", flow, "--resume", "run").exit_code == 0
    assert fake.graph is not None and fake.graph.name == "pendulum"


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stands in for measuring: remembers how it was asked, and finds what was asked for."""
    asked: list[dict[str, Any]] = []

    def fake(graph: Graph, **options: Any) -> Profile:
        asked.append(options)
        options["on_phase"]("training")
        options["on_time"](1.0)
        whole = made()
        for name in options["stages"]:
            options["on_point"](name, whole.stages[name][0])
        return attrs.evolve(whole, stages={name: whole.stages[name] for name in options["stages"]})

    monkeypatch.setattr("ebrl.runtime.profiling.profile", fake)
    return asked


PROFILE = "slow_cpu_2_cores-gymnasium_pendulum_v1-mlp"


def test_profile_keeps_a_file_and_a_picture(flow: Path, measure: list[dict[str, Any]]) -> None:
    pytest.importorskip("matplotlib")
    result = ebrl_command("profile", flow, "--budget", 30)
    assert result.exit_code == 0, result.output
    assert (measure[0]["stages"], measure[0]["budget_s"]) == (("simulation", "generation", "training"), 30.0)
    lines = result.stdout.splitlines()
    assert lines[:2] == ["starting the workers", "measuring training"]
    assert lines[-2:] == [f"profile: profiles/{PROFILE}.json", f"plot: profiles/{PROFILE}.png"]
    assert read_profile(Path("profiles") / f"{PROFILE}.json") == made()
    assert (Path("profiles") / f"{PROFILE}.png").read_bytes().startswith(b"\x89PNG")


def test_profile_without_matplotlib(flow: Path, measure: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.axes"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "ebrl.observe.profile_plot", raising=False)
    result = ebrl_command("profile", flow, "--to", "kept")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "no plot: it needs matplotlib; pip install 'ebrl[plot]'"
    assert [path.name for path in Path("kept").iterdir()] == [f"{PROFILE}.json"]


def test_profile_of_one_stage_keeps_the_others(flow: Path, measure: list[dict[str, Any]]) -> None:
    path = Path("profiles") / f"{PROFILE}.json"
    assert ebrl_command("profile", flow, "--stage", "training").exit_code == 0
    assert measure[-1]["stages"] == ("training",)
    assert tuple(read_profile(path).stages) == ("training",)
    assert ebrl_command("profile", flow, "--stage", "generation", "--stage", "simulation").exit_code == 0
    assert set(read_profile(path).stages) == {"simulation", "generation", "training"}


def test_profile_of_no_stage(flow: Path, measure: list[dict[str, Any]]) -> None:
    result = ebrl_command("profile", flow, "--stage", "trainign")
    assert result.exit_code == 2 and not measure
    assert "there is no stage kind 'trainign'\n  hint: did you mean 'training'?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "error: no workflow file is given\n  hint: ebrl run FILE[:NAME], or ebrl run --resume RUN\n"),
        (["run", "flow.py", "--schedule", "sink"], "there is no schedule 'sink'\n  hint: known: async, colo"),
        (["plan", "flow.py", "--schedule", "sink"], "there is no schedule 'sink'"),
        (
            ["run", "flow.py", "--without", "overlap,rebind"],
            "no mechanism 'rebind' to go without\n  hint: did you mean",
        ),
        (["plan", "flow.py", "--schedule", "async", "--without", "x"], "there is no mechanism 'x' to go without"),
        (["graph", "flow.py", "--format", "mermiad"], "there is no graph format 'mermiad'\n  hint: did you mean 'merm"),
        (["run", "--resume", "run", "--seed", "1"], "--seed cannot be combined with --resume"),
        (["run", "--resume", "run", "--run-dir", "x"], "--run-dir cannot be combined with --resume"),
        (["run", "flow.py", "--run-dir", ""], "Invalid value for '--run-dir': the name is empty"),
        (["run", "--resume", ""], "Invalid value for '--resume': the name is empty"),
        (
            ["run", "flow.py", "--seed", "-1"],
            "--seed must be a whole number from 0 to 9223372036854775807, got -1",
        ),
        (["run", "flow.py", "--seed", str(2**63)], "to 9223372036854775807, got 9223372036854775808"),
        (["check", "flow.py", "--set", "num_envs=0"], "simulate.num_envs: must be a whole number of at least 1, got 0"),
        (
            ["check", "flow.py", "--set", "max_staleness=-1"],
            "max_staleness must be a whole number of at least 0, got -1",
        ),
        (["run", "flow.py", "--record-video", "50"], "--record-video is '50'\n  hint: write every=N, for example"),
        (["run", "flow.py", "--record-video", "every=5"], "pendulum: no stage of this workflow records videos"),
        (["run", "flow.py", "--scheduler", "localhost:8786"], "is no address of a Dask scheduler"),
        (["worker", "tcp://10.0.0.1"], "'tcp://10.0.0.1' is no address of a Dask scheduler\n  hint: write tcp://HOST:"),
        (["check", "flwo.py"], "there is no file flwo.py\n  hint: did you mean 'flow.py'?"),
        (["check", "flow.py:pendlum"], "did you mean 'pendulum'?"),
        (["check", "flow.py", "--set", "num-env=3"], "did you mean 'num_envs'?"),
        (["check", "flow.py", "--set", "num_envs"], "num_envs"),
        (["check", "flow.py", "--set", "num_envs=many"], "num_envs"),
    ],
)
def test_mistakes_exit_with_2(
    flow: Path, launch: Callable[..., FakeLaunch], arguments: list[str], message: str
) -> None:
    launch()
    result = ebrl_command(*arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("line", ["raise ValueError('no')", "import sys; sys.exit(3)", "def broken(:"])
def test_file_that_fails_at_import(flow: Path, line: str) -> None:
    flow.write_text(f"import ebrl\n{line}\n")
    result = ebrl_command("check", flow)
    assert result.exit_code == 2, result.output
    assert "flow.py:2" in result.stderr
    assert str(Path(ebrl.__file__).parent) not in result.stderr, "no frame of ours"


def test_check_of_a_sound_workflow(flow: Path) -> None:
    result = ebrl_command("check", flow)
    assert (result.exit_code, result.stdout) == (0, "pendulum: no problem found in 3 stages and 4 edges\n")


def test_graph_formats(flow: Path) -> None:
    assert "simulate" in ebrl_command("graph", flow).stdout
    assert ebrl_command("graph", flow, "--format", "mermaid").stdout.startswith(("flowchart", "graph"))
    assert ebrl_command("graph", flow, "--format", "dot").stdout.startswith("digraph")


def test_plan_shows_stages_and_loops(flow: Path) -> None:
    result = ebrl_command("plan", flow, "--schedule", "sync")
    assert result.exit_code == 0, result.output
    assert "pendulum, schedule sync" in result.stdout
    assert "rollout loop: simulate -> generate -> simulate" in result.stdout
    assert "train" in result.stdout


def test_plan_says_what_the_schedule_is(flow: Path) -> None:
    result = ebrl_command("plan", flow, "--schedule", "hybrid", "--without", "rebinding")
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "pendulum, schedule hybrid without rebinding, staleness at most 0, barriers: every iteration and " in text
    assert "every chunk, for each of 2 groups; environments keep their cores" in text
    assert f"hybrid: {SCHEDULES['hybrid'].summary}" in text


def test_plan_imports_neither_torch_nor_a_simulator_nor_dask(flow: Path) -> None:
    script = (
        "import sys\nfrom ebrl.cli import app\n"
        "try: app(['plan', 'flow.py'])\nexcept SystemExit as end: assert not end.code\n"
        "print([name for name in ('torch', 'mujoco', 'gymnasium', 'distributed', 'dask') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], cwd=flow.parent, capture_output=True, text=True, timeout=60)
    assert found.stdout.splitlines()[-1] == "[]", found.stderr


def here(flow: Path, **changes: Any) -> Profile:
    """A profile as `ebrl profile` would find it for the workflow on this machine."""
    graph, pool = load_workflow(str(flow)).with_settings([]), ResourcePool.discover()
    return made(**{**described(graph, first_plan(graph, pool), pool), **changes})


def lay(profile: Profile, folder: Path = Path("profiles"), name: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or profile.file_name)
    write_json(path, profile)
    return path


@pytest.mark.parametrize("folder", ["profiles", "beside"])
def test_run_finds_the_profile_of_this_machine(flow: Path, launch: Callable[..., FakeLaunch], folder: str) -> None:
    profile = here(flow)
    if folder == "beside":
        flow = Path("deep") / flow.name
        flow.parent.mkdir()
        flow.write_text(textwrap.dedent(FLOW))
        path = lay(profile, flow.resolve().parent / "profiles")
    else:
        path = lay(profile)
    fake = launch()
    result = ebrl_command("run", flow)
    assert result.exit_code == 0, result.output
    assert fake.options["profile"] == profile
    assert result.stderr == f"planned with the profile {path}\n"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"environments": 16}, "it was measured with environments 16, here it is 4"),
        ({"workflow": "other"}, "it was measured with workflow other, here it is pendulum"),
        ({"versions": {"python": "2.7"}}, "it was measured with python 2.7, here it is "),
        ({"stages": {}}, "it says nothing of the simulation; it says nothing of the generation; it says"),
    ],
)
def test_a_stale_profile_is_not_used(
    flow: Path, launch: Callable[..., FakeLaunch], changes: dict[str, Any], why: str
) -> None:
    path = lay(here(flow, **changes))
    fake = launch()
    result = ebrl_command("run", flow)
    assert (result.exit_code, fake.options["profile"]) == (0, None)
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"the profile {path} is not used: {why}")
    assert line.endswith("; ebrl profile measures again")


def test_a_profile_of_another_machine_is_not_used(flow: Path, launch: Callable[..., FakeLaunch]) -> None:
    path = lay(here(flow, machine="Fast CPU 64 cores", cores=64))
    fake = launch()
    result = ebrl_command("run", flow)
    assert (result.exit_code, fake.options["profile"]) == (0, None)
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"the profile {path} is not used: it was measured with machine Fast CPU 64 cores, here it")
    mine = lay(here(flow))
    assert ebrl_command("run", flow).stderr == f"planned with the profile {mine}\n"


def test_a_profile_that_cannot_be_read_is_not_used(flow: Path, launch: Callable[..., FakeLaunch]) -> None:
    lay(here(flow)).write_text("{}")
    fake = launch()
    result = ebrl_command("run", flow)
    assert (result.exit_code, fake.options["profile"]) == (0, None)
    assert result.stderr.startswith("a profile is not used: profiles/") and "has the schema None" in result.stderr


def test_profiles_of_other_simulators_are_not_spoken_of(flow: Path, launch: Callable[..., FakeLaunch]) -> None:
    lay(here(flow, simulator="libero:libero_object/3"))
    Path("profiles/notes.json").write_text("[]")
    fake = launch()
    result = ebrl_command("run", flow)
    assert (result.exit_code, result.stderr, fake.options["profile"]) == (0, "", None)


@pytest.mark.parametrize("more", [["--schedule", "sync"], ["--set", "max_staleness=0"]])
def test_where_no_staleness_is_allowed_nothing_found_changes_the_plan(
    flow: Path, launch: Callable[..., FakeLaunch], more: list[str]
) -> None:
    lay(here(flow))
    fake = launch()
    result = ebrl_command("run", flow, *more)
    assert (result.exit_code, result.stderr, fake.options["profile"]) == (0, "", None)


def test_a_named_profile_is_used_with_a_warning(flow: Path, launch: Callable[..., FakeLaunch]) -> None:
    lay(here(flow))
    path = lay(here(flow, machine="Fast CPU 64 cores"), name="named.json")
    fake = launch()
    result = ebrl_command("run", flow, "--profile", path)
    assert result.exit_code == 0, result.output
    assert fake.options["profile"].machine == "Fast CPU 64 cores"
    assert result.stderr.startswith(f"warning: the profile {path} may not hold: it was measured with machine Fast")


def test_a_plan_needs_no_profile(flow: Path, launch: Callable[..., FakeLaunch]) -> None:
    lay(here(flow))
    Path("plan.json").write_text(ebrl_command("plan", flow, "--json").stdout)
    fake = launch()
    result = ebrl_command("run", flow, "--plan", "plan.json")
    assert (result.exit_code, result.stderr, fake.options["profile"]) == (0, "", None)


def test_plan_shows_what_run_would_do(flow: Path) -> None:
    path = lay(here(flow))
    result = ebrl_command("plan", flow)
    assert result.exit_code == 0, result.output
    assert result.stderr == f"planned with the profile {path}\n"
    assert "expected: " in result.stdout and "more: one more core" in result.stdout
    elsewhere = ebrl_command("plan", flow, "--machine", "64c")
    assert (elsewhere.exit_code, elsewhere.stderr) == (0, "")
    assert "expected: " not in elsewhere.stdout


def test_plan_for_another_machine(flow: Path) -> None:
    text = flow.read_text().replace("@ebrl.training\n", "@ebrl.training(gpus=2)\n")
    flow.write_text(text.replace("@ebrl.generation\n", "@ebrl.generation(gpus=1)\n"))
    result = ebrl_command("plan", flow, "--machine", "2xH100,56c", "--json")
    assert result.exit_code == 0, result.output
    stages = {stage["name"]: stage["quota"] for stage in json.loads(result.stdout)["stages"]}
    assert len(stages["simulate"]["cores"]) == 56
    assert (stages["generate"]["gpus"], stages["train"]["gpus"]) == (["GPU-0"], ["GPU-1", "GPU-0"])
    few = ebrl_command("plan", flow, "--machine", "1xH100,56c")
    assert few.exit_code == 2
    assert "train: asks for gpus=2, this machine has 1 GPU(s): NVIDIA H100 80GB HBM3" in few.stderr


def test_plan_for_no_machine(flow: Path) -> None:
    result = ebrl_command("plan", flow, "--machine", "8xH10,56c")
    assert result.exit_code == 2
    assert "error: --machine 8xH10,56c: '8xH10' names no known GPU\n  hint: did you mean 'H100'" in result.stderr


def test_process_ends_with_the_code_and_without_a_traceback(flow: Path) -> None:
    ended = process("check", "flow.py", "--set", "num-env=3", folder=flow.parent)
    assert ended.returncode == 2
    assert ended.stdout == "" and "Traceback" not in ended.stderr


def test_closed_pipe_is_no_bug(flow: Path) -> None:
    command = f"'{sys.executable}' -c 'from ebrl.cli import main; main()' graph flow.py | true"
    ended = subprocess.run(command, shell=True, cwd=flow.parent, capture_output=True, text=True, timeout=60)
    assert "bug" not in ended.stderr and "Traceback" not in ended.stderr


def test_ctrl_c_before_the_run_starts(flow: Path) -> None:
    flow.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(5)\n")
    ended = process("check", "flow.py", folder=flow.parent)
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr


def test_worker_joins_the_given_address(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = type(sys)("ebrl.runtime.cluster")
    joined: list[str] = []
    cluster.join = joined.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ebrl.runtime.cluster", cluster)
    assert ebrl_command("worker", "tcp://127.0.0.1:8786").exit_code == 0
    assert joined == ["tcp://127.0.0.1:8786"]


def test_all_errors_have_an_exit_code_that_is_documented() -> None:
    def family(kind: type[EbrlError]) -> Iterator[type[EbrlError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from family(child)

    assert {kind.exit_code for kind in family(EbrlError)} == {1, 2, 130}
