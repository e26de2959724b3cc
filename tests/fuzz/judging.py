"""What may come of a command, and what is a fault of ours."""

from tests.fuzz.forked import Outcome


def fault_of(outcome: Outcome, *, may_fail: bool = True) -> str | None:
    """What is wrong with how a command ended; None: it did what it should, or refused clearly.

    may_fail: whether a refusal (exit code 2, one sentence) is an answer.
    """
    if outcome.hung:
        return "hang"
    if outcome.code < 0:
        return f"ended by signal {-outcome.code}"
    if "Traceback (most recent call last)" in outcome.err:
        return f"traceback: {_last_line(outcome)}"
    if outcome.code == 0:
        return None
    if outcome.code != 2:
        return f"exit code {outcome.code}: {_last_line(outcome)}"
    sentences = [line for line in outcome.err.splitlines() if line.startswith("regard: ")]
    if len(sentences) != 1 or _last_line(outcome) != sentences[0]:
        return f"a refusal that is not one sentence: {outcome.err[-300:]!r}"
    return None if may_fail else f"refused: {_last_line(outcome)}"


def _last_line(outcome: Outcome) -> str:
    lines = [line for line in outcome.err.splitlines() if line.strip()]
    return lines[-1] if lines else ""
