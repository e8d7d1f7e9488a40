"""Workers that are killed at any moment of a delivery: it arrives, always with the same id."""

import dataclasses
import random
from collections.abc import Iterator

import pytest

from app.core.resources import Resources
from app.core.secrets import SecretBox
from app.notifications.service import publish
from app.notifications.types import Message, Target
from tests.integration.notifications.conftest import Receiver, receiving
from tests.support.house import House
from tests.support.processes import MASTER_KEY, Program, until

MOMENTS = ["published", "sending", "answered"]
ROUNDS = 100


@pytest.fixture
def service_resources(service_resources: Resources) -> Resources:
    """The workers open what this process sealed."""
    return dataclasses.replace(service_resources, secrets=SecretBox.from_keys([MASTER_KEY]))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def new_worker(house: House) -> Program:
    worker = house.programs.worker(MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8")
    worker.said("worker is ready")
    return worker


def calls_of(receiver: Receiver, told: str) -> int:
    return sum(call.headers["webhook-id"] == told for call in receiver.calls)


def survives(house: House, receiver: Receiver, victim: Program, moment: str) -> Program:
    """Kill a worker at some moment of a delivery; the next one, which delivers, is returned."""
    receiver.free.clear()
    path = f"hook-{len(house.programs.started)}"
    url = receiver.will(path, receiver.hang) if moment == "sending" else receiver.at(path)
    message = Message(topic="test.told", title="The pelican has landed")
    with house.service.resources.db.begin() as session:
        told = publish(session, message, [Target("WEBHOOK", url)])
    if moment != "published":
        until(lambda: calls_of(receiver, told) == 1, what=victim.log)
    victim.kill()
    receiver.free.set()
    receiver.answers.clear()
    house.rows.age_heartbeats()
    heir = new_worker(house)
    status = "SELECT status FROM deliveries WHERE notification_id = %s"
    until(lambda: house.rows.value(status, told) == "DELIVERED", what=heir.log)
    bodies = {call.body for call in receiver.calls if call.headers["webhook-id"] == told}
    assert len(bodies) == 1
    return heir


def test_a_worker_that_is_killed_while_it_sends(house: House, receiver: Receiver) -> None:
    survives(house, receiver, new_worker(house), "sending")
    assert len(receiver.calls) == 2


@pytest.mark.prove
def test_a_hundred_killed_workers(house: House, receiver: Receiver) -> None:
    chance = random.Random(5)
    worker = new_worker(house)
    for number in range(ROUNDS):
        moment = MOMENTS[number % 3] if number < 3 else chance.choice(MOMENTS)
        worker = survives(house, receiver, worker, moment)
    assert len({call.headers["webhook-id"] for call in receiver.calls}) == ROUNDS
    assert house.rows.all("SELECT DISTINCT status FROM deliveries") == [("DELIVERED",)]
