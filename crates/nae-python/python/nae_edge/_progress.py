"""Progress bars of a training run in a notebook. In a terminal the trainer draws its own."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

_NAMES = {"pretraining": "pre-training", "normalizing": "NAE training", "training": "training"}
# Seconds between two updates of a bar; more would only cost the browser time.
_EVERY = 0.25


def in_notebook() -> bool:
    """Whether this runs in a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class NotebookBar:
    """A bar for each phase of a run, updated in place."""

    def __init__(self) -> None:
        self._handles: dict[str, Any] = {}
        self._drawn = 0.0
        self._look = ""

    def __call__(self, event: dict[str, Any]) -> None:
        phase = event["phase"]
        if phase == "look":
            self._look = f", selection AUROC {event.get('selection_auroc', float('nan')):.3f}"
            return
        step, total = event["step"], event["total"]
        now = time.monotonic()
        if now - self._drawn < _EVERY and step < total:
            return
        self._drawn = now
        from IPython.display import HTML, display

        figures = ", ".join(
            f"{name.replace('_', ' ')} {value:.4f}"
            for name, value in event.items()
            if isinstance(value, float)
        )
        text = html.escape(f"{_NAMES.get(phase, phase)} {step}/{total}  {figures}{self._look}")
        bar = HTML(f'<progress value="{step}" max="{total}" style="width:16em"></progress> <code>{text}</code>')
        if phase in self._handles:
            self._handles[phase].update(bar)
        else:
            self._handles[phase] = display(bar, display_id=True)
