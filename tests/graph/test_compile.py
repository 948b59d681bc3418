from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ebrl.graph.compile import compile_graph, cycle_text, stream_cycles
from ebrl.graph.model import Edge, Graph, Node, StageDefinition


def graph(names: str, *edges: str) -> Graph:
    """Edges as ``ab`` (stream), ``a~b`` (latest), ``a*b`` (stream declared ahead)."""
    stage = StageDefinition(name="s", kind="stage", function=print, inputs=(), outputs=())
    return Graph(
        name="g",
        nodes={name: Node(name=name, stage=stage) for name in names},
        edges=[
            Edge(source=e[0], target=e[-1], output="o", input="i", latest="~" in e, feedback=len(e) > 2) for e in edges
        ],
    )


def test_simulation_and_generation_become_a_loop() -> None:
    order = compile_graph(graph("sgte", "sg", "g*s", "st", "t~g", "t~e"))
    assert order.stages == ("s", "g", "t", "e")
    assert order.loops == (("s", "g"),)


def test_a_stage_used_twice_is_no_cycle() -> None:
    order = compile_graph(graph("abc", "ab", "bc", "ac"))
    assert (order.stages, order.loops) == (("a", "b", "c"), ())


def test_a_stream_declared_ahead_outside_a_loop_keeps_its_reader_behind_its_producer() -> None:
    order = compile_graph(graph("sgthf", "sg", "g*s", "h*t", "sf", "fh", "f*h", "t~g"))
    assert order.stages == ("s", "g", "f", "h", "t")
    assert order.loops == (("s", "g"),)


def test_two_loops_and_a_stage_that_feeds_itself() -> None:
    order = compile_graph(graph("abcde", "ab", "b*a", "cd", "d*c", "e*e"))
    assert order.loops == (("a", "b"), ("c", "d"), ("e",))


def test_cycles_are_printed_from_the_first_call() -> None:
    tangled = graph("abcd", "ab", "b*a", "bc", "c*a", "cd", "d*c")
    (members,) = stream_cycles(tangled)
    assert cycle_text(tangled, members, "a") == "a -> b -> a"
    assert cycle_text(tangled, members, "c") in ("a -> b -> c -> a", "c -> d -> c")
    assert cycle_text(graph("a", "a*a"), {"a"}, "a") == "a -> a"


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=12))
def test_every_stage_follows_what_feeds_it(pairs: set[tuple[int, int, bool]]) -> None:
    names = "abcdef"
    # As in a workflow function: plain edges go from an earlier call to a later one.
    edges = [names[i] + (("~" if latest else "*") if j <= i else "") + names[j] for i, j, latest in sorted(pairs)]
    drawn = graph(names, *edges)
    order = compile_graph(drawn)
    rank = {name: number for number, name in enumerate(order.stages)}
    assert sorted(order.stages) == sorted(names)
    resident = [name for loop in order.loops for name in loop]
    loop_of = {name: number for number, loop in enumerate(order.loops) for name in loop}
    assert all(
        rank[edge.source] < rank[edge.target]
        for edge in drawn.edges
        if not edge.feedback
        or (not edge.latest and loop_of.get(edge.source, edge.source) != loop_of.get(edge.target, edge.target))
    )
    assert len(resident) == len(set(resident))
