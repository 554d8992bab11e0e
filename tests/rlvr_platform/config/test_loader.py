import os
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rlvr_platform.config import dump_config, load_config
from rlvr_platform.config.loader import apply_overrides, check_tree, merge
from rlvr_platform.errors import ConfigError

ROOT = Path(__file__).parents[3]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
MINIMAL = """
steps: 3
model: {kind: pretrained, path: some/model}
data:
  train: {kind: jsonl, path: prompts.jsonl}
  max_prompt_tokens: 100
rollout: {max_new_tokens: 100}
verifier:
  use: {kind: exact}
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = "a.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def minimal(write):
    return write(MINIMAL)


def refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_committed_configuration_loads(path):
    config = load_config(path)
    assert check_tree(yaml.safe_load(dump_config(config)), "dump") == config


def test_there_are_committed_configurations():
    assert ROOT / "configs/dev/arithmetic.yaml" in CONFIGS


def test_an_unknown_key_is_refused_with_the_nearest_name(minimal):
    message = refusal(minimal, "rollout.max_new_tokns=3")
    assert "rollout.max_new_tokns: unknown key; did you mean max_new_tokens?" in message


def test_an_unknown_key_like_nothing_lists_the_known_ones(minimal):
    message = refusal(minimal, "checkpoint.zzzzzz=3")
    assert "checkpoint.zzzzzz: unknown key; known keys: best_metric, best_mode, every" in message


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_a_reward_that_is_not_finite_is_refused(minimal, value):
    message = refusal(minimal, f"verifier.reward_correct={value}")
    assert "verifier.reward_correct: Input should be a finite number" in message


def test_an_unknown_key_in_a_kind_is_compared_with_that_kinds_keys(minimal):
    assert "data.train.pth: unknown key; did you mean path?" in refusal(minimal, "data.train.pth=x")


def test_an_unknown_key_in_a_list_is_named_with_its_place(minimal):
    suite = "{name: s, source: {kind: jsonl, path: p}, max_promts: 3}"
    message = refusal(minimal, f"evaluation.suites=[{suite}]")
    assert "evaluation.suites.0.max_promts: unknown key; did you mean max_prompts?" in message


def test_a_missing_key_is_named(write):
    assert "verifier: required and not set" in refusal(
        write(MINIMAL.replace("verifier:\n  use: {kind: exact}", ""))
    )


def test_an_unknown_kind_names_the_kinds_there_are(minimal):
    message = refusal(minimal, "verifier.use={kind: magic}")
    assert "verifier.use" in message
    assert all(kind in message for kind in ("'math'", "'numeric'", "'exact'"))


@pytest.mark.parametrize(
    "override",
    ["steps='3'", "steps=3.5", "steps=true", "data.shuffle=1", "seed=-1", "name=a/b", "rollout=3"],
)
def test_a_value_of_another_type_or_out_of_range_is_refused_by_its_key(minimal, override):
    assert override.partition("=")[0] in refusal(minimal, override)


def test_every_problem_is_reported_at_once(minimal):
    message = refusal(minimal, "seed=-1", "rollout.workerz=2", "learner.ranks=none")
    assert "has 3 problems" in message
    assert all(key in message for key in ("seed", "rollout.workerz", "learner.ranks"))


def test_every_broken_rule_is_reported_at_once(minimal):
    message = refusal(minimal, "rollout.workers=99", "learner.tokens_per_micro_batch=5")
    assert "has 2 problems" in message


def test_a_key_that_stands_twice_is_refused_with_its_line(write):
    message = refusal(write(MINIMAL + "steps: 4\n"))
    assert "the key steps stands twice" in message
    assert "a.yaml" in message


def test_a_nested_key_that_stands_twice_is_refused(write):
    assert "the key workers stands twice" in refusal(
        write(MINIMAL.replace("{max_new_tokens: 100}", "{workers: 1, workers: 2}"))
    )


@pytest.mark.parametrize("text", ["1e-6", "1E-6", "1.0e-6", "+1e-6", ".1e-5"])
def test_scientific_notation_is_a_number(minimal, text):
    config = load_config(minimal, [f"learner.optimizer.learning_rate={text}"])
    assert config.learner.optimizer.learning_rate == pytest.approx(1e-6)


@pytest.mark.parametrize("text", ["a: [", "- 1\n- 2\n", "", "3", "\t- x"])
def test_a_file_that_is_no_mapping_is_refused(write, text):
    assert "a.yaml" in refusal(write(text))


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert str(path) in refusal(path)


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path):
    assert "none.yaml" in refusal(tmp_path / "none.yaml")
    assert str(tmp_path) in refusal(tmp_path)


def test_extends_takes_over_what_is_not_set_through_a_chain(write):
    write(MINIMAL + "seed: 1\n")
    write("extends: a.yaml\nseed: 2\nrollout: {temperature: 0.5}\n", "b.yaml")
    config = load_config(write("extends: b.yaml\nname: c\n", "c.yaml"))
    assert (config.name, config.seed, config.steps) == ("c", 2, 3)
    assert (config.rollout.temperature, config.rollout.max_new_tokens) == (0.5, 100)


def test_extends_is_relative_to_the_file_that_says_it(tmp_path, write, monkeypatch):
    write(MINIMAL)
    (tmp_path / "below").mkdir()
    path = write("extends: ../a.yaml\n", "below/b.yaml")
    monkeypatch.chdir(ROOT)
    assert load_config(path).steps == 3
    assert load_config(Path(os.path.relpath(path))).steps == 3


def test_extends_in_a_circle_is_refused_with_the_files(write):
    write("extends: b.yaml\n")
    message = refusal(write("extends: a.yaml\n", "b.yaml"))
    assert "extends itself" in message
    assert "a.yaml" in message


def test_extends_of_a_missing_file_names_it(write):
    assert "none.yaml" in refusal(write("extends: none.yaml\n"))


def test_a_section_of_another_kind_replaces_the_whole_section(minimal):
    config = load_config(minimal, ["data.train={kind: arithmetic, count: 7}"])
    assert config.data.train.model_dump()["count"] == 7
    assert config.data.max_prompt_tokens == 100


def test_an_override_reaches_any_depth_and_the_last_one_wins(minimal):
    config = load_config(minimal, ["rollout.engine.threads=3", "rollout.engine.threads=5"])
    assert config.rollout.engine.threads == 5


def test_an_override_may_hold_an_equals_sign(minimal):
    config = load_config(minimal, ["data.format.instruction='a=b'"])
    assert config.data.format.instruction == "a=b"


def test_an_override_can_unset(minimal):
    assert load_config(minimal, ["checkpoint.every_steps=null"]).checkpoint.every_steps is None


@pytest.mark.parametrize("override", ["steps", "=3", "a..b=3", ".a=3", "a.=3"])
def test_an_override_that_is_no_pair_is_refused(minimal, override):
    assert override in refusal(minimal, override)


def test_an_override_that_is_no_yaml_is_refused_by_its_key(minimal):
    assert "the value of steps" in refusal(minimal, "steps=[")


names = st.sampled_from(["a", "b", "c"])
trees = st.recursive(
    st.integers(), lambda t: st.dictionaries(names, t, max_size=3), max_leaves=8
).filter(lambda t: isinstance(t, dict))


@given(trees)
def test_merging_with_nothing_changes_nothing(tree):
    assert merge(tree, {}) == tree
    assert merge({}, tree) == tree


@given(trees, trees)
def test_merging_leaves_its_inputs_alone_and_the_upper_one_is_in_the_result(base, over):
    before = repr((base, over))
    merged = merge(base, over)
    assert repr((base, over)) == before
    assert merge(merged, over) == merged


@given(st.lists(names, min_size=1, max_size=4), st.integers())
def test_an_override_sets_exactly_its_key(path, value):
    tree = apply_overrides({}, [f"{'.'.join(path)}={value}"])
    for name in path:
        assert list(tree) == [name]
        tree = tree[name]
    assert tree == value


@given(
    seed=st.integers(0, 2**40),
    rate=st.floats(0, 1, allow_subnormal=True),
    instruction=st.text(),
    path=st.text(min_size=1),
    stage=st.sampled_from([0, 1, 2, 3]),
    every=st.none() | st.integers(1, 10**6),
    options=st.dictionaries(
        st.text(max_size=3), st.integers() | st.text(max_size=3) | st.booleans()
    ),
)
@example(seed=0, rate=0.0, instruction="1e5", path="0E0", stage=0, every=None, options={})
def test_a_dumped_configuration_reads_back_equal(
    tmp_path_factory, seed, rate, instruction, path, stage, every, options
):
    source = {"kind": "reasoning_gym", "dataset": path, "options": options}
    config = check_tree(
        {
            "steps": 3,
            "seed": seed,
            "model": {"kind": "pretrained", "path": path},
            "data": {"train": source, "format": {"instruction": instruction}},
            "verifier": {"use": {"kind": "exact"}},
            "learner": {
                "dtype": "float32",
                "zero_stage": stage,
                "optimizer": {"learning_rate": rate},
            },
            "checkpoint": {"every_steps": every},
        },
        "generated",
    )
    file = tmp_path_factory.mktemp("dump") / "config.yaml"
    file.write_text(dump_config(config), encoding="utf-8")
    assert load_config(file) == config
