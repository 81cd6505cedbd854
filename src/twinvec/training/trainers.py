"""sentence-transformers' trainers, with this package's batches, checkpoints and measurements.

Theirs stay the loop, the optimiser, mixed precision and the processes. Replaced are: where batches come from, what a
checkpoint holds (all tensors of model and loss, adapters and heads too), that it is marked when complete, what is
measured, and the progress bar.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from accelerate.data_loader import prepare_data_loader
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoderTrainer, SentenceTransformerTrainer
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers import TrainerCallback

from twinvec.progress import Advance, progress_bar
from twinvec.training.batches import BatchPlan
from twinvec.training.gathering import own_part, wait_for_all
from twinvec.training.masks import text_hashes
from twinvec.training.measuring import Measure
from twinvec.training.run_folder import mark_complete

_TENSORS = "tensors.safetensors"


class RowSource(Protocol):
    """Rows by number."""

    def __len__(self) -> int: ...

    def rows(self, indices: Sequence[int]) -> list[dict[str, Any]]: ...


class RowDataset(Dataset[dict[str, Any]]):
    """Several sources as one, numbered through."""

    def __init__(self, sources: Sequence[RowSource]) -> None:
        self._sources = sources
        self._ends = torch.tensor([len(source) for source in sources]).cumsum(0)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of a batch, each source read once."""
        owners = torch.bucketize(torch.tensor(indices), self._ends, right=True).tolist()
        rows: list[dict[str, Any]] = [{}] * len(indices)
        for owner, source in enumerate(self._sources):
            places = [place for place, its in enumerate(owners) if its == owner]
            start = int(self._ends[owner]) - len(source)
            for place, row in zip(places, source.rows([indices[place] - start for place in places]), strict=True):
                rows[place] = row
        return rows


class TextCollator:
    """Rows by role -> the features of each arm, with hashes of the texts for masks, and labels.

    Args:
        preprocess: The model's, from texts to features.
        roles: What the rows of all datasets hold; of these, ``negatives`` may be missing in a row.
        hashed: Whether the objective wants hashes.
    """

    valid_label_columns = ("label", "score")

    def __init__(self, preprocess: Callable[[list[str]], dict[str, Any]], roles: Sequence[str], hashed: bool) -> None:
        self._preprocess = preprocess
        self._roles = roles
        self._hashed = hashed

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        for role in self._roles:
            if role in self.valid_label_columns:
                batch["label"] = torch.tensor([row[role] for row in rows])
                continue
            ragged = role == "negatives"
            texts = [text for row in rows for text in row.get(role, ())] if ragged else [row[role] for row in rows]
            batch |= {f"{role}_{name}": values for name, values in self._features(texts).items()}
        return batch

    def _features(self, texts: list[str]) -> dict[str, Any]:
        features = dict(self._preprocess(texts or [""]))
        if not texts:  # an arm without rows: other processes may have some
            features = {name: value[:0] if isinstance(value, Tensor) else value for name, value in features.items()}
        if self._hashed:
            features["text_hash"] = text_hashes(texts)
        return features


class _OwnParts:
    """The part of every batch that this process computes."""

    def __init__(self, plan: BatchPlan) -> None:
        self._plan = plan
        self.batch_size = plan.batch_size
        self.drop_last = False

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> Iterator[list[int]]:
        return map(own_part, self._plan)


class _OwnBatches:
    """The changes to either trainer; see the module's docstring."""

    def prepare_run(self, dataset: RowDataset, plan: BatchPlan, measure: Measure | None, label: str) -> None:
        """Say what to train on and what to measure; call it before ``train``."""
        self._dataset = dataset
        self._plan = plan
        self._measure = measure
        self.add_callback(_Watcher(plan, label))  # type: ignore[attr-defined]

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Not theirs: ``card`` writes the model card."""

    def get_train_dataloader(self: Any) -> Any:
        loader: DataLoader[Any] = DataLoader(
            self._dataset,
            batch_sampler=_OwnParts(self._plan),
            collate_fn=self.data_collator,
            pin_memory=self.args.dataloader_pin_memory,
        )
        # one process: the batches are shared already, the library would drop those that are not full
        return prepare_data_loader(loader, self.args.device, num_processes=1, process_index=0, put_on_device=True)

    def evaluate(self: Any, *_: Any, **__: Any) -> dict[str, float]:
        scores = {f"eval_{name}": score for name, score in self._measure().items()}
        self.log(scores)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, scores)
        return scores

    def _save(self: Any, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: value.detach().cpu().clone() for name, value in self._tensors().items()}, folder / _TENSORS)

    def _load_from_checkpoint(self: Any, checkpoint: str, *_: Any) -> None:
        stored = load_file(Path(checkpoint) / _TENSORS)
        with torch.no_grad():
            for name, value in self._tensors().items():
                value.copy_(stored[name])

    def _load_best_model(self: Any) -> None:
        self._load_from_checkpoint(self.state.best_model_checkpoint)

    def _tensors(self: Any) -> dict[str, torch.Tensor]:
        """Everything that training changes, by name: the loss holds the model."""
        return {name.replace("model.module.", "model."): value for name, value in self.loss.state_dict().items()}


class EncoderTrainer(_OwnBatches, SentenceTransformerTrainer):
    """Trains a bi-encoder."""


class PairTrainer(_OwnBatches, CrossEncoderTrainer):
    """Trains a cross-encoder."""


class _Watcher(TrainerCallback):
    """Progress bar, epochs of the plan, markers of checkpoints."""

    def __init__(self, plan: BatchPlan, label: str) -> None:
        self._plan = plan
        self._label = label
        self._stack = contextlib.ExitStack()
        self._advance: Advance | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        shown = state.is_world_process_zero
        self._advance = self._stack.enter_context(progress_bar(self._label, state.max_steps, "steps", shown=shown))
        self._advance(state.global_step)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._plan.set_epoch(int(state.epoch))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        assert self._advance is not None
        self._advance(1)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        wait_for_all()  # each process adds the state of its random numbers
        if state.is_world_process_zero:
            mark_complete(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._stack.close()
