import json
import sys
from pathlib import Path

import pytest

from rlvr_platform.config.verifiers_more import GymVerifier
from rlvr_platform.errors import ConfigError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers import gym
from rlvr_platform.verifiers.gym import GymScorer, harmless

pytest.importorskip("reasoning_gym")
from reasoning_gym.factory import DATASETS, create_dataset

WITHOUT_REFERENCE = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
NEEDS_PARTS = {"composite"}
SCORER = GymScorer(GymVerifier())


def verify(prediction, gold, metadata, scorer=SCORER):
    return scorer.verify(prediction, gold, {"metadata": metadata})


def task(name, seed=1, **arguments):
    entry = create_dataset(name, size=2, seed=seed, **arguments)[0]
    return entry["answer"], json.loads(json.dumps(entry["metadata"]))


@pytest.mark.parametrize("name", sorted(set(DATASETS) - WITHOUT_REFERENCE - NEEDS_PARTS))
def test_every_generators_reference_answer_is_correct_after_a_trip_through_json(name):
    gold, metadata = task(name)
    found = verify(f"<think>so</think>It is\n<answer>\n{gold}\n</answer>", gold, metadata)
    assert (found.outcome, found.score) == (Outcome.CORRECT, 1.0)


def test_the_generators_score_is_the_score():
    gold, metadata = task("countdown")
    found = verify("<answer>1+1</answer>", gold, metadata)
    assert (found.outcome, found.score) == (Outcome.WRONG, 0.05)
    strict = GymScorer(GymVerifier(credit="all_or_nothing"))
    found = verify("<answer>1+1</answer>", gold, metadata, strict)
    assert (found.outcome, found.score) == (Outcome.WRONG, None)


def test_without_a_tag_or_box_all_of_the_answer_is_read():
    gold, metadata = task("n_queens")
    assert verify(f"<think>board</think>\n{gold}", gold, metadata).outcome is Outcome.CORRECT
    assert verify("<think>board</think>", gold, metadata).outcome is Outcome.NO_ANSWER


@pytest.mark.parametrize("name", sorted(gym.EVALUATES_LITERALS | gym.EVALUATES_MATHEMATICS))
def test_no_completion_can_run_code_through_a_scorer(name, tmp_path):
    gold, metadata = task(name)
    path = tmp_path / "run"
    code = f"open({str(path)!r}, 'w')"
    octal = "".join(f"\\{ord(letter):o}" for letter in code)
    attacks = [
        f"S('{octal}')",
        f"__import__('pathlib').Path({str(path)!r}).touch()",
        f"[__import__('os').system('touch {path}')]",
        f"(lambda: open({str(path)!r}, 'w'))()",
        f"x.__class__.__base__.__subclasses__() or open({str(path)!r}, 'w')",
        f"5! + open({str(path)!r}, chr(119))",
        f"{{**{{'a': open({str(path)!r}, 'w')}}}}",
    ]
    for attack in attacks:
        found = verify(f"<answer>{attack}</answer>", gold, metadata)
        assert found.outcome is Outcome.WRONG, attack
    assert not path.exists()


def test_the_scorers_that_evaluate_answers_are_exactly_the_guarded_ones():
    """Holds for the installed version: a new scorer of this kind must be guarded first."""
    evaluating = set()
    for name, (kind, _) in DATASETS.items():
        source = Path(str(sys.modules[kind.__module__].__file__)).read_text()
        _, found, scoring = source.partition("def score_answer")
        body = scoring.partition("\n    def ")[0].partition("\nclass ")[0] if found else ""
        calls = ("eval(answer", "parse_expr(answer", "exec(answer", "sympify(answer")
        if any(call in body for call in calls):
            evaluating.add(name)
    assert evaluating == gym.EVALUATES_LITERALS | gym.EVALUATES_MATHEMATICS


def test_ordinary_answers_pass_the_guard():
    assert harmless("2*x**3/3 - exp(x)*sin(x) + C", "simple_integration")
    assert harmless("(8 - 3)*4 + 4", "puzzle24")
    assert harmless("[[0, 1], [1, 0]]", "binary_matrix")
    assert harmless("('A', 'B')", "string_insertion")
    assert harmless("os.system('x')", "word_sorting")


@pytest.mark.parametrize("score", [float("nan"), None, 1.5, -0.1, "1", True])
@pytest.mark.parametrize("credit", ["partial", "all_or_nothing"])
def test_a_score_that_is_no_share_is_an_error(score, credit, monkeypatch):
    scorer = GymScorer(GymVerifier(credit=credit))
    monkeypatch.setattr(gym, "_load_scorer", lambda name, arguments: lambda answer, entry: score)
    with pytest.raises(ValueError, match="score"):
        verify("1", "1", {"source_dataset": "leg_counting"}, scorer)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, ValueError),
        ({"metadata": "countdown"}, ValueError),
        ({"metadata": {}}, ValueError),
        ({"metadata": {"source_dataset": "none_such"}}, ConfigError),
    ],
)
def test_missing_metadata_is_an_error_even_for_an_empty_completion(options, error):
    with pytest.raises(error, match=r"metadata|none_such"):
        SCORER.verify("", "1", options)


def test_arguments_reach_the_generator_and_bad_ones_are_refused_at_the_start():
    gold, metadata = task("puzzle24")
    answer = "<answer>(8 - 2)*4*1</answer>"
    assert verify(answer, gold, metadata).score == 1.0
    narrow = GymScorer(GymVerifier(arguments={"puzzle24": {"max_value": 5}}))
    assert verify(answer, gold, metadata, narrow).score == 0.01
    with pytest.raises(ConfigError, match="no_such"):
        GymScorer(GymVerifier(arguments={"puzzle24": {"no_such": 1}}))


def test_without_the_package_the_verifier_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ConfigError, match=r"rlvr-platform\[reasoning-gym\]"):
        GymScorer(GymVerifier())
