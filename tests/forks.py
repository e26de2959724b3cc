"""Commands as forks of a process that has imported torch already: no seconds of importing.

    python -m tests.forks SOCKET        serves until it is ended

`Forks` starts such a server, and has a folder with the programs `regard`, `torchrun` and `run-text`
(a text in Python), to be called by name, by a shell too. Each hands its arguments, folder,
environment and open streams to the server, which forks; it ends as the fork does, passes SIGINT and
SIGTERM on, and if it is killed, so is the fork. The fork ends as an interpreter does. What it
trains is not drawn: pictures have tests of their own.
"""

import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PROGRAMS = ("regard", "torchrun", "run-text")
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
streams = []
for number in range(3):
    try:
        os.fstat(number)
        streams.append(number)
    except OSError:
        pass
streams = [number for number in streams if number != server.fileno()]
request = [{program!r}, sys.argv[1:], os.getcwd(), dict(os.environ), streams]
message = json.dumps(request).encode("utf-8", "surrogateescape")
socket.send_fds(server, [len(message).to_bytes(8, "big")], streams)
server.sendall(message)
answers = server.makefile("rb")
child = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(child, number))
for number in streams:
    os.close(number)
code = int(answers.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


class Forks:
    """A server, and the folder with its programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        for program in PROGRAMS:
            path = self.folder / program
            path.write_text(
                CLIENT.format(python=sys.executable, socket=str(folder / "socket"), program=program)
            )
            path.chmod(0o755)
        self.regard = str(self.folder / "regard")
        self._server = subprocess.Popen([sys.executable, "-m", "tests.forks", folder / "socket"])
        while not (folder / "socket").exists():
            assert self._server.poll() is None, "the server has ended"
            time.sleep(0.01)

    @property
    def path(self) -> str:
        """PATH, with the programs before all others."""
        return f"{self.folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def close(self) -> None:
        self._server.kill()
        self._server.wait()


def serve(path: str) -> "Request":
    """Fork for every request; returns in the fork alone, with what it should do."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(64)
    os.rename(path + ".new", path)
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker.fileno())
    clients: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([listener, woken, *clients.values()], [], [])
        for child, client in list(clients.items()):
            if client in ready:  # it never says more: it has been killed
                os.kill(child, signal.SIGKILL)
                clients.pop(child).close()
        if woken in ready:
            woken.recv(4096)
            _report_ended(clients)
        if listener in ready:
            client, _ = listener.accept()
            request = Request(client)
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (listener, woken, waker, client, *clients.values()):
                    one.close()
                return request
            request.close_streams()
            clients[child] = client
            client.sendall(b"%d\n" % child)


def _report_ended(clients: dict[int, socket.socket]) -> None:
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if child == 0:
            return
        client = clients.pop(child, None)
        if client is not None:
            client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            client.close()


class Request:
    """What a client wants to be run."""

    def __init__(self, client: socket.socket) -> None:
        size, self._received, _, _ = socket.recv_fds(client, 8, 3)
        message = client.makefile("rb").read(int.from_bytes(size, "big"))
        text = message.decode("utf-8", "surrogateescape")
        self.program, self.arguments, self._folder, self._environment, streams = json.loads(text)
        self._streams = dict(zip(streams, self._received, strict=True))

    def close_streams(self) -> None:
        for descriptor in self._received:
            os.close(descriptor)

    def put_on(self) -> None:
        """Take the client's folder, environment and streams, as a new interpreter would."""
        import torch

        os.chdir(self._folder)
        os.environ.clear()
        os.environ.update(self._environment)
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
        sys.path[:0] = [entry for entry in os.environ.get("PYTHONPATH", "").split(":") if entry]
        for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
            stream = None
            if number in self._streams:
                os.dup2(self._streams[number], number)
                stream = _stream(number, mode)
            else:
                os.close(number)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        self.close_streams()


def _stream(number: int, mode: str):
    """As Python opens it: standard error by lines, output by lines in a terminal."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED")) and mode == "w"
    binary = open(number, mode + "b", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        binary,
        encoding="utf-8",
        errors="backslashreplace" if number == 2 else "surrogateescape",
        line_buffering=number == 2 or os.isatty(number),
        write_through=unbuffered,
    )


def run_ranks(arguments: list[str]) -> int:
    """`torchrun OPTIONS -m regard ARGUMENTS`: torchrun's own parser, and forks as its processes."""
    from torch.distributed.run import parse_args

    from tests.processes import Launcher

    options = parse_args(arguments)
    launcher = Launcher(Path.cwd())
    results = launcher.run(int(options.nproc_per_node), *options.training_script_args)
    for result in results:
        print(result.err, file=sys.stderr)
    return max(result.code for result in results)


def run(request: Request) -> None:
    """In the fork."""
    request.put_on()
    if request.program == "torchrun":
        sys.exit(run_ranks(request.arguments))
    if request.program == "run-text":
        (text,) = request.arguments
        exec(compile(text, "text", "exec"), {"__name__": "__main__"})
        return
    from regard.commands.app import main

    sys.argv = ["regard", *request.arguments]
    main()


def prepare() -> None:
    """Import what commands import, so that no fork needs to."""
    import torch._dynamo  # what making an optimiser imports

    import regard.commands.app
    import regard.look
    import regard.runs.trainer
    from tests.held_out import hold_out_few

    hold_out_few()
    torch.set_num_threads(1)
    regard.look.draw = lambda run: []


if __name__ == "__main__":
    prepare()
    run(serve(sys.argv[1]))
