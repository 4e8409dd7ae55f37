"""The counter agent, in Python. The same commands as its siblings in Rust, C and JavaScript, so that one table of tests
drives all four. What it remembers lives in ordinary objects: the host keeps them between turns.
"""

import re

from componentize_py_types import Err
from wit_world import WitWorld as World
from wit_world.imports import agents, clock, http, log, model, random, secrets, storage, tools, types

numbers = []
rolls = []
total = 0


class WitWorld(World):
    def handle(self, input):
        try:
            text = input.body.decode()
        except UnicodeDecodeError:
            raise bad("the body is not UTF-8") from None
        command, _, rest = text.partition(" ")
        if command not in COMMANDS:
            raise bad(f"unknown command: {command}")
        try:
            answer = COMMANDS[command](rest)
        except Err as error:
            if isinstance(error.value, types.Failure):
                raise
            answer = describe(error.value)
        return types.Reply("text/plain; charset=utf-8", answer.encode())


def add(rest):
    global total
    number = whole(rest)
    numbers.append(number)
    total = wrap(total + number)
    storage.set("total", str(total).encode())
    return f"total={total} count={len(numbers)}"


def recall(_rest):
    return ",".join(map(str, numbers))


def stored(_rest):
    entry = storage.get("total")
    return f"stored={entry.value.decode()}@{entry.version}" if entry else "stored=none"


def roll(_rest):
    rolls.append(f"random={random.bytes(8).hex()} now={clock.now():016x}")
    return rolls[-1]


def list_rolls(_rest):
    return ",".join(rolls)


def fetch(url):
    return request("GET", url, "")


def post(rest):
    url, _, body = rest.partition(" ")
    return request("POST", url, body)


def request(method, url, body):
    response = http.fetch(http.Request(method, url, [], body.encode()))
    return f"status={response.status} bytes={len(response.body)}"


def call(rest):
    method, url, name, *value = rest.split(" ", 3)
    headers = [] if name == "-" else [http.Header(name, "".join(value))]
    response = http.fetch(http.Request(method, url, headers, b""))
    return f"status={response.status} {response.body.decode(errors='replace')}"


def handle(slot):
    return secrets.handle(slot)


def tool(rest):
    name, _, arguments = rest.partition(" ")
    return tools.call(name, arguments)


def ask(text):
    return model.generate(model.Prompt("rehearsal/echo", [model.Utterance(model.Role.USER, text)], 256)).text


def tell(rest):
    to, _, text = rest.partition(" ")
    return f"sent={agents.send(to, 'text/plain', text.encode())}"


def say(text):
    log.write(log.Level.INFO, text)
    return "said"


def spin(_rest):
    while True:
        pass


def fail(text):
    raise Err(types.Failure_Failed(text))


def crash(_rest):
    raise RuntimeError("told to crash")


COMMANDS = {
    "add": add,
    "recall": recall,
    "stored": stored,
    "roll": roll,
    "rolls": list_rolls,
    "fetch": fetch,
    "post": post,
    "call": call,
    "handle": handle,
    "tool": tool,
    "ask": ask,
    "tell": tell,
    "say": say,
    "spin": spin,
    "fail": fail,
    "crash": crash,
}


def describe(fault):
    if isinstance(fault, types.Fault_Refused):
        return f"refused: {fault.value.code} {fault.value.reason}"
    return f"failed: {fault.value}"


def bad(text):
    return Err(types.Failure_BadInput(text))


def whole(text):
    if not re.fullmatch("[+-]?[0-9]{1,30}", text) or wrap(int(text)) != int(text):
        raise bad(f"not a whole number: {text}")
    return int(text)


def wrap(number):
    """As a signed 64-bit number, the way the other three count."""
    return (number + 2**63) % 2**64 - 2**63
