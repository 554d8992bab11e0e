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


def test_sampled_accuracy_is_that_of_the_policy_it_samples(tokenizer):
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
    monkeypatch.setattr(module, "sampled_accuracy", lambda m, t, r, s: measured.extend(r) or 0.6)
    with pytest.raises(NumericalError, match="between"):
        warm_start(new_model(TINY, tokenizer), tokenizer, TINY, lambda line: None)
    assert {split_of(t.text) for t in trained} == {"train"}
    assert {split_of(t.text) for t in measured} == {"test"}


def test_it_learns_until_the_first_measurement_with_headroom_then_softens(tokenizer, monkeypatch):
    given, lines = iter([0.1, 0.54, 0.56, *[0.28] * module.BISECTIONS]), []
    monkeypatch.setattr(module, "sampled_accuracy", lambda *_: next(given))
    warm_start(new_model(TINY, tokenizer), tokenizer, TINY, lines.append)
    assert f"step {3 * module.EVALUATE_EVERY}," in lines[-2]
    assert "28.0%" in lines[-1]
    assert next(given, None) is None


def test_softening_meets_its_target_by_a_temperature_and_nothing_else(tokenizer):
    model = new_model(TINY, tokenizer)
    inputs = torch.tensor([tokenizer.encode("17+25=")])
    before = model(inputs).logits
    scale = 0.3

    def accuracy():
        return (model(inputs).logits.norm() / before.norm()).item()

    reached = module._soften(model, scale, accuracy)
    assert reached == pytest.approx(scale, abs=2.0**-module.BISECTIONS)
    torch.testing.assert_close(model(inputs).logits, before * reached)


def test_a_model_that_does_not_learn_is_an_error(tokenizer, monkeypatch):
    monkeypatch.setattr(module, "sampled_accuracy", lambda *_: 0.1)
    monkeypatch.setattr(module, "MAX_STEPS", 50)
    with pytest.raises(NumericalError, match=r"accuracy of 10\.0% in 50 steps"):
        warm_start(new_model(TINY, tokenizer), tokenizer, TINY, lambda line: None)


def test_it_leaves_the_number_of_threads_as_it_was(tokenizer, monkeypatch):
    monkeypatch.setattr(module, "MAX_THREADS", 1)
    monkeypatch.setattr(module, "HEADROOM", -1.0)
    monkeypatch.setattr(module, "sampled_accuracy", lambda *_: float(torch.get_num_threads() == 1))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(NumericalError, match=r"100\.0%"):
            warm_start(new_model(TINY, tokenizer), tokenizer, TINY, lambda line: None)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
