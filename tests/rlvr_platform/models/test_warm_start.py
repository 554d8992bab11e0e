import pytest
import torch

from rlvr_platform.config.model import ArithmeticModel
from rlvr_platform.data.arithmetic import split_of
from rlvr_platform.data.records import Record
from rlvr_platform.errors import NumericalError
from rlvr_platform.models import warm_start as module
from rlvr_platform.models.arithmetic import character_tokenizer, new_model
from rlvr_platform.models.warm_start import collate, sampled_accuracy, warm_start

TINY = ArithmeticModel(hidden_size=64, layers=1, heads=2)
TASKS = [Record("1+2=", "3", ""), Record("99+9=", "108", ""), Record("3-9=", "-6", "")]


@pytest.fixture(scope="module")
def tokenizer():
    return character_tokenizer()


def test_the_loss_covers_the_answer_and_its_end_only(tokenizer):
    batch = collate(TASKS, tokenizer)
    for row, task in enumerate(TASKS):
        learned = batch["labels"][row][batch["labels"][row] != module.IGNORED]
        assert tokenizer.decode(learned) == f"{task.gold}<eos>"
        kept = batch["input_ids"][row][batch["attention_mask"][row].bool()]
        assert tokenizer.decode(kept) == f"{task.text}{task.gold}<eos>"


def test_padding_changes_no_loss(tokenizer):
    model = new_model(TINY, tokenizer)
    together = model(**collate(TASKS, tokenizer)).loss
    alone = [model(**collate([task], tokenizer)).loss for task in TASKS]
    answers = torch.tensor([len(t.gold) + 1.0 for t in TASKS])
    expected = (torch.stack(alone) * answers).sum() / answers.sum()
    torch.testing.assert_close(together, expected)


def test_sampled_accuracy_is_that_of_the_policy_it_samples(tokenizer, monkeypatch):
    model = new_model(TINY, tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    assert sampled_accuracy(model, tokenizer, TASKS * 20, seed=0) < 0.2
    for _ in range(150):
        model(**collate(TASKS, tokenizer)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert sampled_accuracy(model, tokenizer, TASKS * 20, seed=0) > 0.9


def test_training_sees_the_train_half_and_measures_on_the_test_half(tokenizer, monkeypatch):
    trained, measured = [], []
    collated = module.collate
    monkeypatch.setattr(module, "collate", lambda r, t: trained.extend(r) or collated(r, t))
    monkeypatch.setattr(module, "sampled_accuracy", lambda m, t, r, s: measured.extend(r) or 0.3)
    warm_start(new_model(TINY, tokenizer), tokenizer, TINY, lambda line: None)
    assert {split_of(t.text) for t in trained} == {"train"}
    assert {split_of(t.text) for t in measured} == {"test"}


@pytest.mark.parametrize("accuracies, step", [([0.1, 0.25, 0.3, 0.4], 75), ([0.44], 25)])
def test_it_stops_at_the_first_measurement_past_the_target(
    tokenizer, monkeypatch, accuracies, step
):
    given, lines = iter(accuracies), []
    monkeypatch.setattr(module, "sampled_accuracy", lambda *_: next(given))
    warm_start(new_model(TINY, tokenizer), tokenizer, TINY, lines.append)
    assert f"step {step}," in lines[-1]


@pytest.mark.parametrize("accuracy, cap", [(0.7, 2000), (0.1, 50)])
def test_missing_the_range_on_either_side_is_an_error(tokenizer, monkeypatch, accuracy, cap):
    monkeypatch.setattr(module, "sampled_accuracy", lambda *_: accuracy)
    monkeypatch.setattr(module, "MAX_STEPS", cap)
    with pytest.raises(NumericalError, match=f"accuracy of {accuracy:.1%}"):
        warm_start(new_model(TINY, tokenizer), tokenizer, TINY, lambda line: None)
