"""Readers of a search: streaming, stop strings, probabilities, the tree."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Decode
from regard.decoding import (
    TokenProbabilities,
    Tree,
    before_stop,
    collect,
    stop_at,
    stream_texts,
    stream_tokens,
)
from tests.decoding.table import END
from tests.decoding.test_steps import SEEDS, STRATEGIES, stream


def letters(tokens: list[int]) -> str:
    return "".join("abcdef"[token] for token in tokens)


@pytest.mark.parametrize("strategy", ["greedy", "sample"])
@given(seeds=SEEDS)
def test_token_by_token_is_the_whole(strategy: str, seeds) -> None:
    decode = STRATEGIES[strategy]
    tokens: list[list[int]] = [[] for _ in range(len(seeds) * decode.n_best)]
    texts = ["" for _ in tokens]
    for row, token in stream_tokens(stream(seeds, decode)):
        tokens[row].append(token)
    for row, piece in stream_texts(stream(seeds, decode), letters):
        texts[row] += piece
    assert texts == [letters(output) for output in tokens]
    collected = collect(stream(seeds, decode), n_best=decode.n_best)
    for number, hypotheses in enumerate(collected):
        rows = tokens[number * decode.n_best : (number + 1) * decode.n_best]
        assert sorted(rows) == sorted(one.tokens for one in hypotheses)


def test_a_beam_cannot_be_streamed() -> None:
    with pytest.raises(ValueError, match="beam search cannot be streamed"):
        list(stream_tokens(stream([5], STRATEGIES["beam"])))


def test_a_character_is_shown_when_all_its_bytes_are_there() -> None:
    def text(tokens: list[int]) -> str:  # two tokens make one character
        whole, rest = divmod(len(tokens), 2)
        return "é" * whole + "\ufffd" * rest

    decode = Decode(max_new_tokens=5)
    seed = next(s for s in range(5, 99) if len(collect(stream([s], decode))[0][0].tokens) == 5)
    pieces = [piece for _, piece in stream_texts(stream([seed], decode), text)]
    assert pieces == ["é", "é", "\ufffd"]  # the last is incomplete for good


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seeds=SEEDS, stop=st.sampled_from(["a", "de", "ff", "bad"]))
def test_an_output_ends_at_its_first_stop_string(strategy: str, seeds, stop: str) -> None:
    decode = STRATEGIES[strategy]
    steps = stop_at(stream(seeds, decode), [stop], letters)
    for hypotheses in collect(steps, n_best=decode.n_best):
        assert hypotheses
        for one in hypotheses:
            text = letters(one.tokens)
            assert stop not in text[:-1]
            assert one.finished or (stop not in text and len(text) == 7)
    if strategy == "greedy":
        whole = [letters(one.tokens) for (one,) in collect(stream(seeds, decode))]
        stopped = collect(stop_at(stream(seeds, decode), [stop], letters))
        for text, (one,) in zip(whole, stopped, strict=True):
            assert before_stop(letters(one.tokens), [stop]) == before_stop(text, [stop])


@given(seeds=SEEDS)
def test_rows_that_were_stopped_leave_the_batch_and_the_others_stay_as_they_are(seeds) -> None:
    decode = STRATEGIES["greedy"]
    rows = [len(step.sources) for step in stop_at(stream(seeds, decode), ["a", "b"], letters)]
    stopped = collect(stop_at(stream(seeds, decode), ["a", "b"], letters))
    lengths = [
        len(one.tokens) + (one.finished and one.tokens[-1:] not in ([0], [1])) for (one,) in stopped
    ]
    assert rows == [sum(length > n for length in lengths) for n in range(max(lengths))]
    for (one,), (other,) in zip(stopped, collect(stream(seeds, decode)), strict=True):
        assert other.tokens[: len(one.tokens)] == one.tokens


@given(seeds=SEEDS)
def test_stop_strings_are_never_shown(seeds) -> None:
    decode, stop = STRATEGIES["greedy"], ["ed", "ffa"]
    texts = ["" for _ in seeds]
    steps = stop_at(stream(seeds, decode), stop, letters)
    for row, piece in stream_texts(steps, letters, stop=stop):
        texts[row] += piece
    whole = [letters(one.tokens) for (one,) in collect(stream(seeds, decode))]
    assert texts == [before_stop(text, stop) for text in whole]


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="an empty stop string"):
        list(stop_at(stream([5], STRATEGIES["greedy"]), ["a", ""], letters))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seeds=SEEDS, count=st.integers(1, 9))
def test_alternatives_hold_the_chosen_token_and_sum_to_at_most_1(strategy, seeds, count) -> None:
    decode, probabilities = STRATEGIES[strategy], TokenProbabilities(count)
    steps = probabilities.watch(stream(seeds, decode))
    for one in (one for hypotheses in collect(steps, n_best=decode.n_best) for one in hypotheses):
        tokens = probabilities.of(one)
        assert [each.token for each in tokens] == [*one.tokens, *([END] if one.finished else [])]
        assert sum(each.log_probability for each in tokens) == pytest.approx(
            one.log_probability, abs=1e-4
        )
        for each in tokens:
            assert (each.token, each.log_probability) in each.alternatives
            assert sum(math.exp(value) for _, value in each.alternatives) <= 1 + 1e-5
            assert len(each.alternatives) in (min(count, 6), count + 1)
            values = [value for _, value in each.alternatives]
            assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seeds=SEEDS)
def test_the_tree_leads_to_every_hypothesis(strategy: str, seeds) -> None:
    decode, tree = STRATEGIES[strategy], Tree()
    collected = collect(tree.watch(stream(seeds, decode)), n_best=decode.n_best)
    for source, hypotheses in enumerate(collected):
        for one in hypotheses:
            path = tree.path(one)
            end = [END] if one.finished else []
            assert [node.token for node in path] == [*one.tokens, *end]
            assert path[-1].log_probability == one.log_probability
            assert [node.fate for node in path[:-1]] == ["kept"] * (len(path) - 1)
            assert path[-1].fate == ("finished" if one.finished else "kept")
            assert {node.source for node in path} == {source}
    extended = {node.parent for node in tree.nodes}
    for number, node in enumerate(tree.nodes):
        assert node.parent is None or node.parent < number
        assert node.fate == "kept" or number not in extended
        assert sum(f"{node.log_probability:.2f}" in tree.draw(s) for s in range(len(seeds)))


def test_a_drawing_shows_what_was_kept_finished_and_pruned() -> None:
    tree = Tree()
    collect(tree.watch(stream([5], Decode(strategy="beam", beam=2, max_new_tokens=2))))
    lines = tree.draw(0, name=lambda token: "abcdef"[token]).splitlines()
    assert lines[0][:3] == "├─ "
    assert any(line.startswith("└─ ") for line in lines)
    shown = sum(line.count(" → ") + 1 for line in lines)
    assert shown == len(tree.nodes)
    assert sum(line.count(" pruned") for line in lines) == sum(
        node.fate == "pruned" for node in tree.nodes
    )
