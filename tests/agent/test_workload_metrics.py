from __future__ import annotations

import json

import pytest

from edgesweep.metrics import REGISTRY
from edgesweep.records import Sample
from edgesweep_agent.core.arrangement import Arrangement, Part, part_of
from edgesweep_agent.core.phases import interference
from edgesweep_agent.core.tool_schema import TOOLS
from edgesweep_agent.core.workload_metrics import burst_windows, fanout, figures, tasks

S = 1_000_000_000
CALL = json.dumps({"tool": "list_alarms", "arguments": {"line": "oven"}})


def sent(part, start, end, *, index=0, ok=True, ttft=0.5, **fields):
    """A request of a part: first text after ``ttft`` seconds, last at ``end``."""
    text_ns = (round(ttft * S), round((end - start) * S)) if ok else ()
    return Sample(
        concurrency=2, index=index, ok=ok, part=part, ttft_s=ttft, output_tokens=2,
        t_send_ns=round(start * S), t_end_ns=round((end + 0.25) * S), text_ns=text_ns, **fields,
    )  # fmt: skip


def burst(of, number, start, seconds, *, ttft=0.5, **fields):
    """Two questions and a join, ``seconds`` long in all."""
    return [
        sent(f"{of}/{number}", start, start + seconds / 2, ttft=ttft, **fields),
        sent(f"{of}/{number}", start + 0.1, start + seconds / 2, ttft=ttft, **fields),
        sent(f"{of}/{number}/join", start + seconds / 2 + 0.1, start + seconds, **fields),
    ]


def rounds(n):
    """Cold bursts of 4, 5, 6 ... seconds, warm ones of half."""
    return [
        sample
        for number in range(1, n + 1)
        for sample in burst("cold", number, number * 20, 3 + number, ttft=1.0)
        + burst("warm", number, number * 20 + 10, (3 + number) / 2, ttft=0.25)
    ]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("cold/1", Part(1, "cold")),
        ("cold/12/join", Part(12, "cold", "join")),
        ("operator", None),
        ("", None),
        ("a/b/c", None),
    ],
)
def test_parts_by_name(name, part):
    assert part_of(Sample(concurrency=1, index=0, ok=True, part=name)) == part
    assert part is None or part.name == name


def test_cold_and_warm_are_two_numbers():
    got = fanout(rounds(3), 100)
    cold, warm = got.distributions["makespan_cold_s"], got.distributions["makespan_warm_s"]
    assert (cold.n, cold.min, cold.mean, cold.max) == (3, 4.0, 5.0, 6.0)
    assert (warm.n, warm.min, warm.mean, warm.max) == (3, 2.0, 2.5, 3.0)
    assert cold.p50 is None
    # A join has another shape than the questions, and counts in the makespan alone.
    ttft = got.distributions["ttft_cold_s"], got.distributions["ttft_warm_s"]
    assert [(one.n, one.mean) for one in ttft] == [(6, 1.0), (6, 0.25)]
    assert got.values == {}


def test_eleven_bursts_have_a_median():
    assert fanout(rounds(11), 100).distributions["makespan_cold_s"].p50 == 9.0


@pytest.mark.parametrize("missing", [0, 2])
def test_a_burst_with_a_failure_or_without_its_join_has_no_makespan(missing):
    samples = rounds(2)
    wrong = {0: [sent("cold/1", 20, 22, ok=False)], 2: []}[missing]
    samples[missing : missing + 1] = wrong
    assert [window.seconds for window in burst_windows(samples, "cold")] == [5.0]


@pytest.mark.parametrize(
    ("cold", "warm", "share"),
    [
        (None, None, None),
        (0, 96, 0.96),
        (0, 0, 0.0),
        (None, 80, 0.8),
        (0, None, 0.0),
        (0, 180, 1.0),
    ],
)
def test_reuse_of_the_opening_is_proved_from_cached_tokens(cold, warm, share):
    samples = burst("cold", 1, 0, 4, cached_tokens=cold)
    samples += burst("warm", 1, 10, 2, cached_tokens=warm)
    assert fanout(samples, 100).values.get("prefix_hit_share") == share


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        (["a", "b", "a", "b"], 1.0),
        (["a", "b", "b", "a"], 0.0),
        (["a", "b", "a", "x"], 0.5),
        (["a", "b", "a", None], 1.0),
        (["", "", "", ""], None),
        (["a", "b"], None),
    ],
)
def test_the_same_question_cold_and_warm(texts, share):
    """The first two are asked cold, at 10 and 11, the others again, at 40 and 41."""
    parts = [("cold/1", 10), ("cold/1", 11), ("again/1", 40), ("again/1", 41)]
    samples = [
        sent(part, 0, 1, index=index, ok=text is not None, text=text or "")
        for (part, index), text in zip(parts, texts, strict=False)
    ]
    assert fanout(samples, 100).values.get("same_text_share") == share


def conversation(number, start, lengths, **fields):
    """Steps one after another, half a second apart."""
    samples, at = [], start
    for step, length in enumerate(lengths):
        samples.append(sent(f"task/{number}", at, at + length, chain=0, step=step, **fields))
        at += length + 0.5
    return samples


def test_the_slowest_step_is_named():
    samples = conversation(1, 0, (1, 4, 2)) + conversation(2, 5, (5, 4, 2))
    samples += conversation(3, 9, (1, 3, 2))
    got = tasks(samples, ("plan", "build", "check"))
    assert got.attributes == {"slowest_step": "build"}
    assert (got.distributions["task_s"].min, got.distributions["task_s"].max) == (7.0, 12.0)
    assert (got.distributions["step_s"].min, got.distributions["step_s"].max) == (3.0, 5.0)
    assert set(got.distributions) == {"task_s", "step_s"}
    assert got.values == {}


def test_a_step_may_be_several_requests_at_once():
    samples = [
        sent("task/1/fault", 0, 1),
        sent("task/1/tools", 1.5, 2),
        sent("task/1/tools", 1.5, 4),
        sent("task/1/join", 4, 6),
    ]
    got = tasks(samples, ("fault", "tools", "join"))
    assert got.distributions["task_s"].mean == 6.0
    assert got.distributions["step_s"].mean == 2.5
    assert got.attributes == {"slowest_step": "tools"}


def test_a_task_that_lacks_a_step_has_no_duration():
    samples = conversation(1, 0, (1, 1))
    samples += [*conversation(2, 0, (1,)), sent("task/2", 2, 3, chain=0, step=1, ok=False)]
    samples += conversation(3, 0, (1,))
    assert tasks(samples, ("a", "b")).distributions["task_s"].n == 1
    assert tasks(samples[2:], ("a", "b")).distributions == {}
    assert tasks(samples[2:], ("a", "b")).attributes == {}


@pytest.mark.parametrize(
    ("answers", "action_s", "share"),
    [
        ((CALL, CALL, CALL), 1.0, 1.0),
        (("I shall", CALL, CALL), 2.5, 2 / 3),
        (("I shall", "look", CALL[:-1]), None, 0.0),
        (("", "", ""), None, None),
    ],
)
def test_the_first_action_is_the_first_call_that_fits(answers, action_s, share):
    samples = [
        sent("task/1", step * 1.5, step * 1.5 + 1, chain=0, step=step, text=text)
        for step, text in enumerate(answers)
    ]
    got = tasks(samples, ("1", "2", "3"), TOOLS)
    action = got.distributions.get("time_to_first_action_s")
    assert (action and action.mean) == action_s
    assert got.values.get("tool_call_valid_share") == share


def test_arguments_in_tool_calls_count_and_failed_answers_do_not():
    samples = [
        sent("task/1", 0, 1, step=0, tool_calls='{"line": "press"}', text="list_alarms{...}"),
        sent("task/1", 2, 3, step=1, ok=False, text=CALL),
    ]
    got = tasks(samples, ("1", "2"), TOOLS)
    assert got.values["tool_call_valid_share"] == 1.0
    assert got.distributions["time_to_first_action_s"].mean == 1.0


def stream(part, start, gaps, *, tokens=None, **fields):
    """An answer whose first text comes at ``start``, then with these gaps (seconds)."""
    instants = [0.0]
    for gap in gaps:
        instants.append(instants[-1] + gap)
    text_ns = tuple(round(instant * S) for instant in instants)
    return Sample(
        concurrency=1, index=0, ok=True, part=part, t_send_ns=round(start * S), text_ns=text_ns,
        t_end_ns=round(start * S) + text_ns[-1],
        output_tokens=len(text_ns) if tokens is None else tokens, **fields,
    )  # fmt: skip


def session(n=11, before=0.1, during=0.3, after=0.1):
    """An operator's answers of ten gaps: ``n`` in each phase; the other load is there meanwhile."""
    samples, at = [], 0.0
    spans = []
    for gap in (before, during, after):
        spans.append(at)
        for _ in range(n):
            samples.append(stream("operator", at, [gap] * 10))
            at += gap * 10 + 0.5
    newcomers = [sent("fanout", spans[1], spans[2] - 0.35, ttft=t / 10) for t in range(1, 12)]
    return samples + newcomers


def test_slowdown_and_the_newcomers_ttft():
    got = interference(session(), "operator", "fanout")
    assert got["tpot_before_s"] == pytest.approx(0.1)
    assert got["tpot_during_s"] == pytest.approx(0.3)
    assert got["tpot_after_s"] == pytest.approx(0.1)
    assert got["stall_max_s"] == pytest.approx(0.3)
    assert got["newcomer_ttft_s"] == pytest.approx(0.6)
    assert got["recovery_s"] == pytest.approx(0.1)


def test_ten_answers_have_no_median():
    got = interference(session(n=10)[:-1], "operator", "fanout")
    assert set(got) == {"stall_max_s"}


def test_tokens_count_in_the_phase_in_which_they_come():
    """Answers of 10 fast, 10 slow and 10 fast gaps; the other load is there in the middle."""
    gaps = [0.1] * 10 + [0.4] * 10 + [0.1] * 10
    samples = [stream("fanout", 0, gaps) for _ in range(11)]
    samples.append(sent("operator", 1.0, 4.75))
    got = interference(samples, "fanout", "operator")
    assert got["tpot_before_s"] == pytest.approx(0.1)
    assert got["tpot_during_s"] == pytest.approx(0.4)
    assert got["tpot_after_s"] == pytest.approx(0.1)
    assert got["recovery_s"] == pytest.approx(0.0)
    assert "newcomer_ttft_s" not in got


def test_a_chunk_of_several_tokens_is_not_a_slow_token():
    samples = [stream("fanout", 0, [0.4] * 10, tokens=41) for _ in range(11)]
    samples.append(sent("operator", 2.0, 10.0))
    assert interference(samples, "fanout", "operator")["tpot_before_s"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("gaps", "recovery_s"),
    [
        ([0.1] * 20, 0.0),
        ([0.1] * 3 + [0.3] * 4 + [0.1] * 20, 1.5),
        ([0.11] * 10, 0.0),
        ([0.112] * 10, None),
        ([0.1] * 7, None),
    ],
)
def test_recovery_is_a_run_of_tokens_as_fast_as_before(gaps, recovery_s):
    """The other load goes at 20 s, and so does the first text of the answer that tells."""
    before = [stream("operator", n, [0.1] * 5) for n in range(11)]
    samples = [*before, sent("fanout", 12, 19.75), stream("operator", 20, gaps)]
    got = interference(samples, "operator", "fanout").get("recovery_s")
    assert got == (None if recovery_s is None else pytest.approx(recovery_s))


def test_a_stall_that_only_begins_in_the_other_loads_time_counts():
    samples = [stream("operator", 0, [0.1] * 30 + [2.0, 5.0]), sent("fanout", 2.0, 2.875)]
    got = interference(samples, "operator", "fanout")
    assert got["stall_max_s"] == pytest.approx(2.0)


@pytest.mark.parametrize("part", ["operator", "fanout"])
def test_one_load_alone_interferes_with_nothing(part):
    assert interference([sent(part, 0, 1)], "operator", "fanout") == {}


@pytest.mark.parametrize(
    ("samples", "arrangement", "names"),
    [
        (rounds(3), Arrangement("burst", 100), {"makespan_cold_s", "makespan_warm_s",
                                               "ttft_cold_s", "ttft_warm_s"}),
        (conversation(1, 0, (1,), text=CALL), Arrangement("task", steps=("1",), tools=TOOLS),
         {"task_s", "step_s", "time_to_first_action_s", "tool_call_valid_share"}),
        (session(), Arrangement("phases", resident="operator", newcomer="fanout"),
         {"tpot_before_s", "tpot_during_s", "tpot_after_s", "stall_max_s", "recovery_s",
          "newcomer_ttft_s"}),
        (rounds(3), Arrangement(), set()),
    ],
)  # fmt: skip
def test_each_workload_has_figures_of_its_own_and_all_are_registered(samples, arrangement, names):
    got = figures(samples, arrangement)
    assert set(got.values) | set(got.distributions) == names
    assert names <= set(REGISTRY)
