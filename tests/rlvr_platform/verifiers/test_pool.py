import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_platform.config.verifier import PoolConfig, VerifierConfig
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.errors import ConfigError, VerifierError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def config(use=None, **pool):
    return VerifierConfig(use=use or ExactVerifier(), pool=PoolConfig(**pool))


def children(pid):
    """Processes whose parent is `pid`, zombies aside."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def descendants(pid):
    return [d for child in children(pid) for d in (child, *descendants(child))]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "condition not met in time"
        time.sleep(0.01)


def pids_in(file):
    return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture(scope="module")
def exact_pool():
    with VerifierPool(config()) as pool:
        yield pool


@pytest.fixture
def misbehaving(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    pools = []

    def create(**pool):
        pools.append(VerifierPool(config(**pool), factory="misbehaving:build"))
        return pools[-1]

    yield create
    for pool in pools:
        pool.close()


any_text = st.text(st.characters(exclude_categories=()), max_size=20)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(any_text, any_text), max_size=80))
def test_verdicts_stand_in_the_order_of_the_items_whatever_the_text(exact_pool, pairs):
    verdicts = exact_pool.grade([GradeItem(a, b) for a, b in pairs])
    assert [v.extracted for v in verdicts] == [a.strip() for a, _ in pairs]
    for (a, b), verdict in zip(pairs, verdicts, strict=True):
        assert (verdict.outcome is Outcome.CORRECT) == (a.strip() == b.strip() != "")


def test_many_threads_get_their_own_verdicts(exact_pool):
    def grade(thread):
        futures = [
            exact_pool.submit([GradeItem(f"{thread}-{i}", f"{thread}-{i % 7}")]) for i in range(50)
        ]
        return [f.result(timeout=30)[0] for f in futures]

    with ThreadPoolExecutor(4) as threads:
        for thread, verdicts in enumerate(threads.map(grade, range(4))):
            assert [v.extracted for v in verdicts] == [f"{thread}-{i}" for i in range(50)]
            assert sum(v.outcome is Outcome.CORRECT for v in verdicts) == 7


def test_ten_megabytes_and_lone_surrogates_survive_the_transport():
    huge = "x\ud800" * 5_000_000
    with VerifierPool(config(deadline_s=30.0)) as pool:
        same, other = pool.grade([GradeItem(huge, huge), GradeItem(huge + "y", huge)])
    assert (same.outcome, other.outcome) == (Outcome.CORRECT, Outcome.WRONG)
    assert same.extracted == huge[:1000]


def test_rewards_come_from_the_configuration():
    chosen = VerifierConfig(use=ExactVerifier(), reward_correct=2.0, reward_wrong=-1.0)
    with VerifierPool(chosen) as pool:
        verdicts = pool.grade([GradeItem("a", "a"), GradeItem("b", "a"), GradeItem("", "a")])
    assert [v.reward for v in verdicts] == [2.0, -1.0, -1.0]


def test_options_reach_the_verifier_only_if_they_can_travel(exact_pool):
    with pytest.raises(Exception, match="pickle"):
        exact_pool.submit([GradeItem("a", "a", {"lock": threading.Lock()})])


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("segfault", "died of SIGSEGV, twice"),
        ("exit", "exited with status 7, twice"),
        ("close descriptors", "twice"),
        ("system exit", "SystemExit: 3"),
        ("timeout exception", "_TimeoutException: late"),
        ("raise", "ValueError: boom"),
        ("memory", "MemoryError"),
        ("recursion", "RecursionError"),
        ("recursion in C", "died of SIGSEGV, twice"),
        ("garble the channel", "into the answer channel of its process, twice"),
        ("half an answer", "into the answer channel of its process, twice"),
        ("flood the channel", "into the answer channel of its process, twice"),
    ],
)
def test_what_breaks_a_verifier_is_an_error_and_hurts_no_other_item(misbehaving, action, reason):
    pool = misbehaving(memory_mib=1024, deadline_s=30.0)
    items = [GradeItem(f"{i}", f"{i - i % 2}") for i in range(20)]
    verdicts = pool.grade([*items[:10], GradeItem(action, action), *items[10:]])
    broken = verdicts.pop(10)
    assert (broken.outcome, broken.reward) == (Outcome.ERROR, None)
    assert reason in broken.rule
    expected = [Outcome.CORRECT, Outcome.WRONG] * 10
    assert [v.outcome for v in verdicts] == expected


def test_a_hang_in_c_is_a_timeout_within_a_second_of_the_deadline(misbehaving):
    pool = misbehaving(deadline_s=0.5)
    started = time.monotonic()
    (verdict,) = pool.grade([GradeItem("hang in C", "x")])
    assert time.monotonic() - started < 1.5
    assert (verdict.outcome, verdict.reward) == (Outcome.TIMEOUT, None)
    assert 0.5 <= verdict.seconds < 1.5
    assert pool.grade([GradeItem("a", "a")])[0].outcome is Outcome.CORRECT


def test_hanging_items_never_cost_a_healthy_one_its_verdict(misbehaving):
    items, expected = [], []
    for i in range(24):
        hangs = i % 4 == 0
        items.append(GradeItem("hang in C" if hangs else str(i), str(i - i % 2)))
        expected.append(Outcome.TIMEOUT if hangs else (Outcome.CORRECT, Outcome.WRONG)[i % 2])
    verdicts = misbehaving(deadline_s=0.5).grade(items)
    assert [v.outcome for v in verdicts] == expected
    assert max(v.seconds for v in verdicts) < 1.5


def test_healthy_items_do_not_wait_for_the_deadlines_of_hanging_ones(misbehaving):
    pool = misbehaving(deadline_s=1.0)
    pool.grade([GradeItem("a", "a")] * 40)
    texts = ["hang in C" if i % 4 == 0 else str(i) for i in range(40)]
    futures = [pool.submit([GradeItem(text, str(i))]) for i, text in enumerate(texts)]
    started = time.monotonic()
    healthy = [f.result(timeout=30)[0] for i, f in enumerate(futures) if i % 4]
    # Ten hanging items before or between them: five deadlines on each of two workers.
    assert time.monotonic() - started < 3.0
    assert {v.outcome for v in healthy} == {Outcome.CORRECT}
    hanging = [f.result(timeout=60)[0] for f in futures[::4]]
    assert {v.outcome for v in hanging} == {Outcome.TIMEOUT}
    assert all(1.0 <= v.seconds < 2.0 for v in hanging)


def test_a_slow_item_that_made_way_still_gets_its_verdict(misbehaving, tmp_path):
    pool, file = misbehaving(workers=1, deadline_s=10.0), tmp_path / "pids"
    pool.grade([GradeItem("a", "a")] * 40)
    slow = GradeItem("announce", "announce", {"pids": str(file), "seconds": 1.0})
    futures = [pool.submit([item]) for item in (slow, *[GradeItem("b", "b")] * 5)]
    assert {f.result(timeout=20)[0].outcome for f in futures} == {Outcome.CORRECT}
    assert len(pids_in(file)) == 2


@pytest.mark.parametrize("seed", range(3))
def test_slow_and_hanging_items_among_others_all_get_their_own_verdict(misbehaving, tmp_path, seed):
    pool, rng = misbehaving(deadline_s=1.0), random.Random(seed)
    slow = {"pids": str(tmp_path / "pids"), "seconds": 0.2}
    items, expected = [], []
    for i, kind in enumerate(rng.choices(["hang in C", "announce", ""], [1, 2, 47], k=300)):
        items.append(GradeItem(kind or str(i), kind or str(i - i % 2), slow if kind else {}))
        healthy = Outcome.WRONG if i % 2 and not kind else Outcome.CORRECT
        expected.append(Outcome.TIMEOUT if kind == "hang in C" else healthy)
    futures = [pool.submit([item]) for item in items]
    assert [f.result(timeout=60)[0].outcome for f in futures] == expected


def test_a_flood_of_output_blocks_nothing(misbehaving):
    pool = misbehaving(deadline_s=10.0)
    verdicts = pool.grade([GradeItem("flood", "flood")] * 4)
    assert {v.outcome for v in verdicts} == {Outcome.CORRECT}


def test_a_verifier_that_forks_gives_one_verdict_an_item(misbehaving):
    pool = misbehaving(workers=1)
    items = [GradeItem("fork", "fork" if i % 2 else "x", {"seconds": i % 3 / 10}) for i in range(6)]
    verdicts = pool.grade(items)
    assert [v.outcome for v in verdicts] == [Outcome.WRONG, Outcome.CORRECT] * 3


def announced(pool, file, count):
    """The process of each of `count` items."""
    item = GradeItem("announce", "announce", {"pids": str(file)})
    assert {v.outcome for v in pool.grade([item] * count)} == {Outcome.CORRECT}
    return pids_in(file)


def test_a_worker_is_replaced_after_its_share_of_verdicts(misbehaving, tmp_path):
    before = set(descendants(os.getpid()))
    pids = announced(misbehaving(workers=1, recycle_after=3), tmp_path / "pids", 30)
    counts = [pids.count(pid) for pid in set(pids)]
    # A worker holds up to two items when its last verdict arrives.
    assert max(counts) <= 4
    wait_until(lambda: len(set(descendants(os.getpid())) - before) <= 3)


def test_a_worker_that_grows_is_replaced_and_one_that_does_not_is_kept(misbehaving, tmp_path):
    pool, file = misbehaving(workers=1, recycle_growth_mib=64), tmp_path / "pids"
    (first,) = set(announced(pool, file, 20))
    pool.grade([GradeItem("leak", "leak", {"mib": 40})])
    assert set(announced(pool, file, 1)) == {first}
    pool.grade([GradeItem("leak", "leak", {"mib": 40})])
    assert set(announced(pool, file, 1)) != {first}
    wait_until(lambda: not alive(first))


def test_memory_that_earlier_items_took_costs_no_item_its_verdict(misbehaving):
    pool = misbehaving(workers=1, memory_mib=512, recycle_growth_mib=10_000)
    verdicts = pool.grade([GradeItem("leak", "leak", {"mib": 300})] * 5)
    assert {v.outcome for v in verdicts} == {Outcome.CORRECT}


def test_handing_in_waits_while_the_queue_is_full(misbehaving, tmp_path):
    pool, file = misbehaving(workers=1, queue_mib=1, deadline_s=30), tmp_path / "pids"
    slow = {"pids": str(file), "seconds": 1.0, "filler": "x" * (1 << 20)}
    first = pool.submit([GradeItem("announce", "announce", slow)])
    second = pool.submit([GradeItem("a", "a")])
    assert first.done()
    assert second.result(timeout=10)[0].outcome is Outcome.CORRECT


def test_closing_frees_who_waits_for_room_in_the_queue(misbehaving):
    pool = misbehaving(workers=1, queue_mib=1, deadline_s=60)
    pool.submit([GradeItem("hang in C", "x" * (1 << 20))])
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(pool.submit, [GradeItem("a", "a")]) for _ in range(2)]
        time.sleep(0.2)
        assert not any(w.done() for w in waiting)
        pool.close()
        for w in waiting:
            with pytest.raises(VerifierError, match="closed"):
                w.result(timeout=5)


def test_a_worker_killed_from_outside_costs_no_item_its_verdict(misbehaving, tmp_path):
    pool, file = misbehaving(workers=1), tmp_path / "pids"
    options = {"pids": str(file), "seconds": 0.5}
    first = GradeItem("announce", "announce", options)
    future = pool.submit([first, *(GradeItem(str(i), str(i)) for i in range(10))])
    wait_until(lambda: pids_in(file))
    os.kill(pids_in(file)[0], signal.SIGKILL)
    verdicts = future.result(timeout=10)
    assert {v.outcome for v in verdicts} == {Outcome.CORRECT}
    assert len(set(pids_in(file))) == 2


def test_a_retry_has_only_the_rest_of_the_deadline(misbehaving, tmp_path):
    pool, file = misbehaving(workers=1, deadline_s=1.5), tmp_path / "pids"
    options = {"pids": str(file), "seconds": 60}
    started = time.monotonic()
    future = pool.submit([GradeItem("announce", "announce", options)])
    wait_until(lambda: pids_in(file))
    time.sleep(1.0)
    os.kill(pids_in(file)[0], signal.SIGKILL)
    assert future.result(timeout=10)[0].outcome is Outcome.TIMEOUT
    assert time.monotonic() - started < 2.5


def test_a_killed_fork_server_is_replaced_and_no_verdict_is_lost(misbehaving, tmp_path):
    pool, file = misbehaving(), tmp_path / "pids"
    options = {"pids": str(file), "seconds": 0.3}
    future = pool.submit([GradeItem("announce", "announce", options)] * 6)
    wait_until(lambda: pids_in(file))
    worker_stat = Path(f"/proc/{pids_in(file)[0]}/stat").read_text()
    os.kill(int(worker_stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    assert {v.outcome for v in future.result(timeout=20)} == {Outcome.CORRECT}


def test_children_of_a_killed_worker_die_with_it(misbehaving, tmp_path):
    pool, file = misbehaving(deadline_s=0.5), tmp_path / "pids"
    pool.grade([GradeItem("leave child", "x", {"pids": str(file)})])
    (child,) = pids_in(file)
    wait_until(lambda: not alive(child))


def test_what_leaves_the_group_of_its_worker_dies_with_it_or_with_the_pool(misbehaving, tmp_path):
    pool, file = misbehaving(workers=1, recycle_after=1), tmp_path / "pids"
    leave = GradeItem("leave daemon", "leave daemon", {"pids": str(file)})
    assert pool.grade([leave])[0].outcome is Outcome.CORRECT
    wait_until(lambda: not alive(pids_in(file)[0]))
    kept = misbehaving(workers=1)
    kept.grade([leave])
    assert alive(pids_in(file)[1])
    kept.close()
    assert not alive(pids_in(file)[1])


def test_close_leaves_no_process_and_fails_what_is_open(misbehaving):
    before = set(descendants(os.getpid()))
    pool = misbehaving(workers=3)
    future = pool.submit([GradeItem("hang in C", "x")] * 8)
    wait_until(lambda: len(set(descendants(os.getpid())) - before) == 7)
    started = set(descendants(os.getpid())) - before
    pool.close()
    pool.close()
    assert not any(alive(pid) for pid in started)
    with pytest.raises(VerifierError, match="closed"):
        future.result(timeout=1)
    with pytest.raises(VerifierError, match="closed"):
        pool.submit([GradeItem("a", "a")])


_UNCLOSED = """
    import os, sys, time
    from rlvr_platform.config.verifier import VerifierConfig
    from rlvr_platform.config.verifiers_more import ExactVerifier
    from rlvr_platform.verifiers.pool import GradeItem, VerifierPool
    pool = VerifierPool(VerifierConfig(use=ExactVerifier()), factory="misbehaving:build")
    pool.submit([GradeItem("hang in C", "x"), GradeItem("hang in C", "x")])
    print("busy", flush=True)
    {ending}
"""


@pytest.mark.parametrize(
    "ending", ["time.sleep(0.3)", "time.sleep(0.3); raise ValueError", "time.sleep(600)"]
)
def test_workers_end_with_their_program_however_it_ends(ending):
    program = textwrap.dedent(_UNCLOSED.format(ending=ending))
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{HERE}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdout.readline() == b"busy\n"
        wait_until(lambda: len(descendants(process.pid)) == 5)
        started = descendants(process.pid)
        if "600" in ending:
            process.kill()
        process.wait(timeout=10)
    wait_until(lambda: not any(alive(pid) for pid in started))


def test_workers_start_without_torch(misbehaving, tmp_path):
    pool, file = misbehaving(workers=1), tmp_path / "pids"
    future = pool.submit([GradeItem("announce", "x", {"pids": str(file), "seconds": 1})])
    wait_until(lambda: pids_in(file))
    assert "libtorch" not in Path(f"/proc/{pids_in(file)[0]}/maps").read_text()
    assert future.result(timeout=10)[0].outcome is Outcome.WRONG


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("misbehaving:build_broken", "FileNotFoundError: no such answer key"),
        ("misbehaving:absent", "AttributeError"),
        ("no_such_module_anywhere:build", "ModuleNotFoundError"),
    ],
)
def test_a_verifier_that_does_not_load_is_a_configuration_error(monkeypatch, factory, reason):
    monkeypatch.syspath_prepend(HERE)
    with pytest.raises(ConfigError, match=reason):
        VerifierPool(config(), factory=factory)


def test_five_thousand_exact_verdicts_take_less_than_a_second(exact_pool):
    items = [GradeItem(str(i), "7") for i in range(5000)]
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        exact_pool.grade(items)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 1.0
