"""Finding incidents by words, and by the rule they are about.

A word is found in a field when some word of the field begins with it, case and a final s aside
(``evict`` finds ``evicted``, ``drops`` finds ``dropped``); small words such as "after" are not
looked for beside others. Order: how many of the asked words were found, then the sum over these
words of the weight of the best field each was found in (symptoms 3; title, trigger and root cause
2; the others 1), then the id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_io.incidents.library import Incident

WEIGHTS = {
    "symptoms": 3, "title": 2, "trigger": 2, "root_cause": 2, "id": 1, "component": 1,
    "detection": 1, "remediation": 1, "lessons": 1, "source": 1, "fstypes": 1, "rules": 1,
}  # fmt: skip
_WORD = re.compile(r"[^\W_]+")
_SMALL = frozenset({
    "a", "after", "all", "an", "and", "are", "as", "at", "before", "but", "by", "for", "from",
    "had", "has", "have", "in", "into", "is", "it", "its", "no", "not", "of", "on", "or",
    "so", "than", "that", "the", "then", "there", "they", "this", "to", "too", "was", "were",
    "when", "which", "while", "with",
})  # fmt: skip


@dataclass(frozen=True)
class Hit:
    """One incident and why it was found: (word, name of the best field that holds it)."""

    incident: Incident
    found: tuple[tuple[str, str], ...] = ()

    @property
    def weight(self) -> int:
        """Sum of the weights of the fields in `found`."""
        return sum(WEIGHTS[name] for _, name in self.found)

    @property
    def why(self) -> str:
        """For people."""
        return ", ".join(f"{word} ({name.replace('_', ' ')})" for word, name in self.found)


def search(library: Iterable[Incident], text: str = "", rule: str | None = None) -> list[Hit]:
    """Incidents of which at least one word of `text` is found, best first; no words: all, by id.

    `rule` (a code such as F08, in either case) leaves those only that name it.
    """
    words = _asked(text)
    wanted = [one for one in library if rule is None or rule.upper() in one.rules]
    hits = [Hit(one, _found(one, words)) for one in wanted]
    if words:
        hits = [hit for hit in hits if hit.found]
    return sorted(hits, key=lambda hit: (-len(hit.found), -hit.weight, hit.incident.id))


def _asked(text: str) -> list[str]:
    words = list(dict.fromkeys(words_of(text)))
    return [word for word in words if word not in _SMALL] or words


def words_of(text: str) -> list[str]:
    """Words of letters and digits, lower-case."""
    return _WORD.findall(text.lower())


def _found(incident: Incident, words: list[str]) -> tuple[tuple[str, str], ...]:
    fields = [(name, words_of(_text(incident, name))) for name in WEIGHTS]  # heaviest first
    best = (
        next(((word, name) for name, there in fields if _holds(there, word)), None)
        for word in words
    )
    return tuple(hit for hit in best if hit is not None)


def _holds(there: list[str], word: str) -> bool:
    stem = word[:-1] if len(word) > 3 and word.endswith("s") else word
    return any(each.startswith(stem) for each in there)


def _text(incident: Incident, name: str) -> str:
    value = getattr(incident, name)
    return value if isinstance(value, str) else " ".join(value)
