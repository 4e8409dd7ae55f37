"""An agent that counts what it hears."""

from componentize_py_types import Err
from wit_world import WitWorld as World
from wit_world.imports import log, storage, types

# Ordinary objects: the host keeps them between turns, also while the agent sleeps on disk.
heard = []


class WitWorld(World):
    def handle(self, input):
        try:
            answer = hear(input.body.decode())
        except UnicodeDecodeError:
            raise Err(types.Failure_BadInput("the message is not UTF-8")) from None
        except Err as error:
            raise Err(types.Failure_Failed(explain(error.value))) from None
        return types.Reply("text/plain; charset=utf-8", answer.encode())


def hear(text):
    """All that reaches outside is an ask, and any ask can be refused: it then raises Err with the fault as its value."""
    heard.append(text)
    log.write(log.Level.INFO, f"heard {text!r}")
    storage.set("heard", str(len(heard)).encode())
    return f"I have heard {len(heard)} so far: {', '.join(heard)}"


def explain(fault):
    if isinstance(fault, types.Fault_Refused):
        return f"{fault.value.code}: {fault.value.reason} {fault.value.remedy}"
    return fault.value
