from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.controls.events import MAX_PENDING_EDGES, EdgeLog


def edge(seq):
    return {"seq": seq, "kind": "key_down", "code": "KeyW"}


def seqs(edges):
    return [taken["seq"] for taken in edges]


def test_edges_are_taken_once_and_in_order_of_their_sequence():
    log = EdgeLog()
    assert all(log.add(edge(seq)) for seq in (41, 40, 45, 43))
    assert seqs(log.take()) == [40, 41, 43, 45]
    assert log.take() == ()


def test_a_repeated_edge_is_refused_also_after_it_was_taken():
    log = EdgeLog()
    log.add(edge(5))
    assert not log.add(edge(5))
    log.take()
    assert not log.add(edge(5))
    assert log.add(edge(4))
    assert seqs(log.take()) == [4]


def test_an_edge_from_beyond_the_memory_counts_as_repeated():
    log = EdgeLog()
    log.add(edge(5000))
    assert not log.add(edge(5000 - 1024))
    assert log.add(edge(5000 - 1023))


def test_a_release_stands_after_all_that_was_sent_before_it_and_before_what_comes_later():
    log = EdgeLog()
    log.add(edge(7))
    log.add_own({"kind": "key_up", "code": "KeyW"})
    log.add(edge(8))
    log.add(edge(6))
    assert seqs(log.take()) == [6, 7, None, 8]


def test_releases_keep_their_order():
    log = EdgeLog()
    for code in ("KeyW", "KeyA", "KeyB"):
        log.add_own({"kind": "key_up", "code": code})
    assert [taken["code"] for taken in log.take()] == ["KeyW", "KeyA", "KeyB"]


def test_the_oldest_of_too_many_are_dropped_and_counted():
    log = EdgeLog()
    for seq in range(MAX_PENDING_EDGES + 10):
        log.add(edge(seq))
    assert log.dropped == 10
    taken = seqs(log.take())
    assert (taken[0], taken[-1], len(taken)) == (10, MAX_PENDING_EDGES + 9, MAX_PENDING_EDGES)


@given(st.lists(st.one_of(st.integers(0, 3000), st.integers(0, 2**53 - 1)), max_size=200))
def test_the_window_agrees_with_a_set_of_all_that_was_seen(sent):
    log, seen, newest, accepted = EdgeLog(), set(), -1, []
    for seq in sent:
        expected = seq not in seen and seq > newest - 1024
        assert log.add(edge(seq)) is expected
        accepted += [seq] * expected
        seen.add(seq)
        newest = max(newest, seq)
    assert seqs(log.take()) == sorted(accepted)
