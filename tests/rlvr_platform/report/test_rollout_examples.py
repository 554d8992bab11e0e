import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.report.rollout_examples import (
    MOST_CHARACTERS,
    MOST_SIBLINGS,
    choose,
    examples_section,
    recorded_steps,
)

HOSTILE = '</pre><script>alert("x")</script><img src=x onerror=alert(1)>\x00\u202e'


def row(group_id, reward, advantage=0.0, fate="TRAINED"):
    return {"group_id": group_id, "reward": reward, "advantage": advantage, "fate": fate}


rewards = st.lists(st.sampled_from([None, -1.0, 0.0, 0.5, 1.0]), min_size=1, max_size=6)


@given(st.lists(rewards, max_size=6))
def test_the_best_the_worst_and_the_most_mixed_group_are_chosen(groups):
    rows = [row(i, reward) for i, group in enumerate(groups) for reward in group]
    known = [r["reward"] for r in rows if r["reward"] is not None]
    chosen = {example.reason: example.rows for example in choose(rows)}
    if known:
        assert chosen["the best"][0]["reward"] == max(known)
        assert chosen["the worst"][0]["reward"] == min(known)
    assert ("one without a verdict" in chosen) == (len(known) < len(rows))
    mixed = chosen.get("a group whose siblings differ", [])
    differing = [group for group in groups if len(set(group) - {None}) > 1]
    assert bool(mixed) == bool(differing)
    assert [r["reward"] for r in mixed] in [*differing, []]


def test_among_equal_rewards_the_advantage_decides():
    chosen = choose([row(0, 1.0, 0.5), row(1, 1.0, 2.0), row(2, 0.0, -1.0), row(3, 0.0, None)])
    assert chosen[0].rows[0]["group_id"] == 1
    assert chosen[1].rows[0]["group_id"] == 2


def test_replayed_rollouts_are_not_taken_for_the_policy_of_the_step():
    rows = [row(0, 5.0, fate="REPLAYED"), row(0, -5.0, fate="REPLAYED"), row(7, 1.0)]
    chosen = {example.reason: example.rows for example in choose(rows)}
    assert chosen["the best"] == chosen["the worst"] == rows[2:]
    assert "a group whose siblings differ" not in chosen
    assert chosen["one replayed from an earlier step"] == rows[:1]


def test_first_and_last_recorded_step_are_shown_with_all_that_is_known(new_run, parse):
    run = new_run()
    for step in (1, 2, 10):
        run.rollouts(step, [(f"prompt {step}", [(f"good {step}", 1.0), (f"bad {step}", 0.0)])])
    words = parse(examples_section(run.folder)).text
    assert words.index("Step 10") < words.index("Step 1", words.index("Step 10") + 7)
    for expected in ("prompt 10", "good 10", "bad 1", "the <gold>", "a rule", "TRAINED", "STOP"):
        assert expected in words
    assert "good 2" not in words


def test_a_hostile_completion_stays_text(new_run, parse):
    run = new_run()
    run.rollouts(1, [(HOSTILE, [(HOSTILE, 1.0), (HOSTILE, None)])])
    page = parse(examples_section(run.folder))
    assert not {"script", "img"} & set(page.tags)
    assert HOSTILE.replace("\x00", "\u2400") in page.text


def test_long_texts_and_large_groups_are_cut_with_a_word_on_the_rest(new_run, parse):
    run = new_run()
    siblings = [("y" * (MOST_CHARACTERS + 5), float(i % 2)) for i in range(MOST_SIBLINGS + 3)]
    run.rollouts(1, [("p", siblings)])
    words = parse(examples_section(run.folder)).text
    assert "y" * (MOST_CHARACTERS + 1) not in words
    assert "… 5 more characters" in words
    assert "3 more siblings in the Parquet file." in words


def test_no_rollouts_are_said_to_be_none(new_run):
    assert "No rollout recorded." in examples_section(new_run().folder)


def test_a_step_without_rollouts_is_said_to_be_empty(new_run):
    run = new_run()
    run.rollouts(1, [])
    assert "The step has no rollouts." in examples_section(run.folder)


@pytest.mark.parametrize("content", [b"", b"PAR1 damaged PAR1"])
def test_a_damaged_file_is_named_and_the_other_step_still_shown(new_run, parse, content):
    run = new_run()
    run.rollouts(1, [("p", [("first", 1.0)])])
    run.folder.rollouts(2).write_bytes(content)
    words = parse(examples_section(run.folder)).text
    assert "cannot read" in words and "step-000002.parquet" in words
    assert "first" in words


def test_files_that_a_resume_set_aside_are_not_steps(new_run):
    run = new_run()
    run.rollouts(1_000_000, [])
    run.rollouts(2, [])
    (run.path / "rollouts/step-000003.parquet.superseded-1").write_bytes(b"")
    assert recorded_steps(run.folder) == [2, 1_000_000]
