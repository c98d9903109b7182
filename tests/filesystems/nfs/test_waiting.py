"""Requests that wait for a server, told from what broken connections swallowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurm_io.filesystems.nfs.transports import Transport
from slurm_io.filesystems.nfs.waiting import WaitingRequests


def connection(sends: int, recvs: int, bad_xids: int = 0, connects: int | None = 1) -> Transport:
    return Transport("tcp", 700, connects, sends, recvs, bad_xids, 0, 0, 2, 0, 0)


class Client:
    """A client that sends, is answered and reconnects, with the kernel's way of counting."""

    def __init__(self, connects: int = 1) -> None:
        self.sends = self.recvs = self.retrans = 0
        self.connects = connects
        self.waiting: list[int] = []  # transmissions so far of each request that waits

    def send(self, count: int) -> None:
        self.waiting += [1] * count
        self.sends += count

    def answer(self, count: int) -> None:
        for _ in range(min(count, len(self.waiting))):
            self.retrans += self.waiting.pop(0) - 1
            self.recvs += 1

    def reconnect(self) -> None:
        """The connection breaks; all that waits is sent again."""
        self.connects += 1
        self.sends += len(self.waiting)
        self.waiting = [sent + 1 for sent in self.waiting]

    def read(self, waiting: WaitingRequests) -> int | None:
        transport = connection(self.sends, self.recvs, 0, self.connects)
        return waiting.update([transport], self.retrans)


STEPS = st.lists(
    st.tuples(st.sampled_from(["send", "answer", "reconnect", "read"]), st.integers(1, 9)),
    max_size=60,
)


def run(steps: list[tuple[str, int]], client: Client, waiting: WaitingRequests) -> list[int]:
    found = []
    for step, count in steps:
        if step == "reconnect":
            client.reconnect()
        elif step == "read":
            found.append(client.read(waiting) or 0)
        else:
            getattr(client, step)(count)
    return found


@given(STEPS)
def test_exact_while_the_first_connection_lasts(steps: list[tuple[str, int]]) -> None:
    waiting, client = WaitingRequests(), Client()
    for step in steps:
        if step[0] != "reconnect":
            run([step], client, waiting)
            assert client.read(waiting) == len(client.waiting)


@given(STEPS)
def test_nothing_waits_when_all_is_answered_however_often_it_broke(
    steps: list[tuple[str, int]],
) -> None:
    waiting, client = WaitingRequests(), Client()
    client.read(waiting)
    run(steps, client, waiting)
    client.answer(len(client.waiting))
    assert client.read(waiting) == 0
    # and a hang after that is seen in full
    client.send(4)
    assert client.read(waiting) == 4 and client.read(waiting) == 4


@given(STEPS)
def test_a_hang_is_seen_while_a_reconnection_sends_all_again(steps: list[tuple[str, int]]) -> None:
    waiting, client = WaitingRequests(), Client()
    client.read(waiting)
    run(steps, client, waiting)
    client.read(waiting)
    client.send(3)
    client.read(waiting)
    for _ in range(3):
        client.reconnect()
        found = client.read(waiting)
        assert found is not None and found >= 3


def test_replies_that_came_twice_are_no_loss() -> None:
    waiting = WaitingRequests()
    # one of the rdma sample: 314570 sent, 314568 answered, 2 replies nobody waited for any more
    assert waiting.update([connection(314570, 314568, 2, connects=304)], 0) == 0
    assert waiting.update([connection(314575, 314568, 2, connects=304)], 0) == 5


def test_what_was_unanswered_before_on_a_reconnected_server_counts_when_it_falls() -> None:
    waiting = WaitingRequests()
    assert waiting.update([connection(13563, 13560, connects=207)], 206) == 0
    assert waiting.update([connection(13570, 13560, connects=207)], 206) == 7
    # two of the three were real: they are answered, so one was lost
    assert waiting.update([connection(13570, 13569, connects=207)], 206) == 0
    assert waiting.update([connection(13574, 13569, connects=207)], 206) == 4


def test_requests_that_were_killed_are_let_go_when_a_reconnection_does_not_send_them() -> None:
    waiting, client = WaitingRequests(), Client()
    client.read(waiting)
    client.send(3)
    assert client.read(waiting) == 3
    client.waiting = []  # their processes were killed, and the server is gone
    client.reconnect()
    client.send(2)
    assert client.read(waiting) == 2
    client.answer(2)
    assert client.read(waiting) == 0


def test_connections_of_one_server_add_up() -> None:
    eight = [connection(10 + place, 10) for place in range(8)]
    assert WaitingRequests().update(eight, 0) == sum(range(8))


def test_a_server_mounted_anew_starts_from_nothing() -> None:
    waiting = WaitingRequests()
    waiting.update([connection(1000, 990)], 0)
    assert waiting.update([connection(5, 3)], 0) == 2


def test_no_readable_connection_is_unknown_and_not_zero() -> None:
    assert WaitingRequests().update([], 0) is None
    assert WaitingRequests().update([connection(2**40, 0)], 0) is None
    # UDP has no connection: what it lost before is told apart in the same way
    assert WaitingRequests().update([connection(90, 80, connects=None)], 0) == 0
