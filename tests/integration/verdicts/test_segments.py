"""Which runs are one history: those that do the same on the same items, but for a few."""

from tests.integration.verdicts.conftest import Night, traces
from tests.support.service import JSON, Service


def asking_otherwise(uploaded: list[JSON], items: range) -> list[JSON]:
    """The same tasks, some of which are shown to the agent in other words."""
    return [
        trace | {"tags": ["task:reworded" if number in items else "task:first"]}
        for number, trace in enumerate(uploaded)
    ]


def test_a_few_other_items_leave_a_history_whole_and_many_begin_a_new_one(
    service: Service, night: Night
) -> None:
    first = night("monday", traces(()))["fingerprint"]
    # 39 of 40 items are the same, then 35 of 39, then again 35 of 40.
    lacking_one = night("tuesday", traces(())[1:])["fingerprint"]
    lacking_five = night("wednesday", traces(())[5:])
    whole = night("thursday", traces(()))["fingerprint"]
    assert lacking_one == first
    assert lacking_five["fingerprint"] != first
    # It is compared on what both have, all the same.
    assert lacking_five["verdict"]["items"]["compared"] == 35
    assert "4 items are missing" in lacking_five["verdict"]["differences"]
    # Who does the same on the same items as on Monday goes on with Monday's history.
    assert whole == first


def test_other_questions_begin_a_new_history(service: Service, night: Night) -> None:
    uploaded = traces(())
    first = night("monday", asking_otherwise(uploaded, range(0)))["fingerprint"]
    some = night("tuesday", asking_otherwise(uploaded, range(2)))
    many = night("wednesday", asking_otherwise(uploaded, range(10)))
    assert (some["fingerprint"], some["verdict"]["items"]["revised"]) == (first, 2)
    assert many["fingerprint"] != first
    assert "8 items have another task or expected output" in many["verdict"]["differences"]
    answered = [trace | {"expectedOutput": "maybe"} for trace in uploaded]
    assert night("thursday", answered)["fingerprint"] not in {first, many["fingerprint"]}


def test_traces_without_items_of_their_own_are_one_history(service: Service, night: Night) -> None:
    def live(name: str) -> list[JSON]:
        return [
            {"traceId": f"{name}-{number}", "expectedOutput": "yes", "output": "yes"}
            for number in range(10)
        ]

    first, second = night("monday", live("m")), night("tuesday", live("t"))
    assert first["fingerprint"] == second["fingerprint"]


def test_two_agents_on_the_same_items_have_one_fingerprint(service: Service, night: Night) -> None:
    first = night("monday", traces(()))
    service.agent("agent-002")
    other = service.completed(runName="monday", agentId="agent-002")
    assert other["fingerprint"] == first["fingerprint"]
    service.patch("/benchmarks/bench-001/kpis/quality", {"formula": "ACCURACY * 2"})
    assert service.completed(runName="monday")["fingerprint"] != first["fingerprint"]
