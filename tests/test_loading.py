"""Files are read as data: no call in the sources builds objects or runs code that a file names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(p for part in ("rlvr_platform", "actors") for p in (ROOT / part).rglob("*.py"))
OWN_CHANNELS = {"rlvr_platform/verifiers/worker.py"}
"""Read pickles that come from their own parent process."""


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Place and call of everything called `name` or `owner.name`, in all sources."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(names):
                yield f"{path.relative_to(ROOT).as_posix()}:{node.lineno}", node


def keywords(call: ast.Call) -> dict[str, str]:
    return {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg}


def class_of(call: ast.Call) -> str:
    return ast.unparse(call.func).split(".")[-2]


def from_pretrained(prefix: str) -> list[tuple[str, dict[str, str]]]:
    """Calls on Auto classes; those that read GGUF get no code and no pickle to read."""
    found = [(place, call) for place, call in calls(".from_pretrained")]
    chosen = [(p, keywords(c)) for p, c in found if class_of(c).startswith(prefix)]
    return [(place, given) for place, given in chosen if "gguf_file" not in given]


def test_models_are_read_from_safetensors_only() -> None:
    models = from_pretrained("AutoModel")
    assert len(models) >= 2
    assert [place for place, given in models if given.get("use_safetensors") != "True"] == []


def test_the_engine_reads_safetensors_only() -> None:
    tree = ast.parse((ROOT / "actors/engine.py").read_text(encoding="utf-8"))
    dicts = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    pairs = [{ast.unparse(k): v for k, v in zip(d.keys, d.values, strict=True) if k} for d in dicts]
    arguments = [d for d in pairs if "'trust_remote_code'" in d]
    assert len(arguments) == 1
    assert ast.unparse(arguments[0]["'load_format'"]) == "'safetensors'"


def test_models_and_tokenizers_say_whether_they_trust_code() -> None:
    """Left out, transformers would ask at the terminal."""
    loads = [*from_pretrained("AutoModel"), *from_pretrained("AutoTokenizer")]
    assert len(loads) >= 4
    assert [place for place, given in loads if "trust_remote_code" not in given] == []
    assert not [place for place, given in loads if given.get("trust_remote_code") == "True"]


def test_torch_files_are_read_as_tensors() -> None:
    found = list(calls("torch.load"))
    assert found
    assert [place for place, call in found if keywords(call).get("weights_only") != "True"] == []


def test_deepspeed_reads_its_states_as_data() -> None:
    found = [place for place, _ in calls(".load_checkpoint")]
    guarded = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.With) and "weights_only()" in ast.unparse(node.items[0]):
                inner = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
                guarded += [f"{path.relative_to(ROOT).as_posix()}:{n.lineno}" for n in inner]
    assert found
    assert set(found) <= set(guarded)


def test_numpy_files_are_read_without_pickles() -> None:
    found = list(calls("np.load"))
    assert len(found) >= 3
    assert [place for place, call in found if keywords(call).get("allow_pickle") != "False"] == []


def test_pickles_come_from_our_own_processes_only() -> None:
    names = ("pickle.load", "pickle.loads", "Unpickler", "joblib.load", "read_pickle")
    places = {place.rpartition(":")[0] for place, _ in calls(*names)}
    assert places == OWN_CHANNELS


@pytest.mark.parametrize("name", ["yaml.load", "yaml.load_all", "unsafe_load", "full_load"])
def test_yaml_builds_plain_values_only(name: str) -> None:
    from yaml import SafeLoader

    from rlvr_platform.config.loader import _Loader

    assert issubclass(_Loader, SafeLoader)
    found = [(place, keywords(call)) for place, call in calls(name)]
    assert [place for place, given in found if given.get("Loader") != "_Loader"] == []
