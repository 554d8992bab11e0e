"""Groups and batches of random tokens."""

import numpy as np
import pytest

from rlvr_platform.types import Prompt, RolloutGroup, Ticket, TrainBatch

VOCABULARY = 53


@pytest.fixture
def make_group():
    def make(group_id, prompt_tokens, lengths, masked=0.0):
        """A group whose tokens are masked out of the loss with probability `masked`."""
        generator = np.random.default_rng([group_id, prompt_tokens, *lengths])
        total = int(sum(lengths))
        prompt = generator.integers(0, VOCABULARY, prompt_tokens).astype(np.int32)
        return RolloutGroup(
            ticket=Ticket(
                group_id, 0, Prompt(group_id, "", prompt, "", "test"), n=len(lengths), seed=0
            ),
            tokens=generator.integers(0, VOCABULARY, total).astype(np.int32),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            loss_mask=generator.random(total) >= masked,
            logprobs=(-generator.exponential(1.0, total)).astype(np.float32),
            versions=np.zeros(total, np.int32),
            finish=np.zeros(len(lengths), np.uint8),
            texts=("",) * len(lengths),
        )

    return make


@pytest.fixture
def make_batch():
    def make(groups):
        """Every sibling of every group is a row; the handles are the groups themselves."""
        generator = np.random.default_rng(len(groups))
        sizes = [group.size for group in groups]
        rows = sum(sizes)
        prompts = np.repeat([len(group.ticket.prompt.tokens) for group in groups], sizes)
        lengths = [np.diff(group.offsets) for group in groups]
        counts = [g.loss_mask[g.sibling(i)].sum() for g in groups for i in range(g.size)]
        return TrainBatch(
            step=3,
            version=2,
            handles=tuple(groups),
            group=np.repeat(np.arange(len(groups)), sizes).astype(np.int32),
            sibling=np.concatenate([np.arange(n) for n in sizes]).astype(np.int32),
            advantage=generator.normal(size=rows).astype(np.float32),
            weight=generator.uniform(0.5, 1.5, rows).astype(np.float32),
            length=(prompts + np.concatenate(lengths)).astype(np.int32),
            trained_tokens=np.array(counts, np.int32),
        )

    return make
