"""What a bundle may say of the slots that agents' authors declare."""

import copy
import unittest

import test_check_bundle as bundles
from bundle_shapes import BODY, Bad
from check_bundle import Lives

GIT = {"slot": "git", "purpose": "reads \u001b issues", "hosts": ["a.example", "b.example:8443", "http://[::1]:8080"],
       "required": True}
MAIL = {"slot": "mail", "purpose": "p" * 200, "hosts": [], "required": False}

# Rule, what is wrong, and the list that has it.
WRONG = (
    ("V9", "none at all", []),
    ("V9", "out of order", [MAIL, GIT]),
    ("V9", "one twice", [GIT, GIT]),
    ("V9", "too many", [dict(MAIL, slot="s%02d" % at) for at in range(17)]),
    ("V9", "a name in capitals", [dict(GIT, slot="Git")]),
    ("V9", "a purpose of two lines", [dict(GIT, purpose="a\u2028b")]),
    ("V9", "a purpose too long", [dict(GIT, purpose="\u20ac" * 67)]),
    ("V9", "no purpose", [dict(GIT, purpose=" \t")]),
    ("V9", "hosts out of order", [dict(GIT, hosts=["b.example", "a.example"])]),
    ("V9", "a host twice", [dict(GIT, hosts=["a.example", "a.example"])]),
    ("V9", "a host with its usual port", [dict(GIT, hosts=["a.example:443"])]),
    ("V9", "a host in the clear", [dict(GIT, hosts=["http://a.example"])]),
    ("V9", "a mapped address in the clear", [dict(GIT, hosts=["http://[::ffff:7f00:1]"])]),
    ("V9", "too many hosts", [dict(GIT, hosts=["h%d.example" % at for at in range(9)])]),
    ("V3", "something more", [dict(GIT, value="x")]),
    ("V3", "perhaps required", [dict(GIT, required=None)]),
    ("V3", "not a list", {}),
)


def created(slots, kind="agent-created", **more):
    journal = bundles.Journal(bundles.keep)
    body = copy.deepcopy(journal.created("bo", "stateless", None)["agent-created"])
    body["grants"] = body["grants"][:-1] + ["secret:git", "secret:mail"]
    return {kind: dict(body, slots=slots, **more)}


class Slots(unittest.TestCase):
    def broken(self, check, *arguments):
        with self.assertRaises(Bad) as caught:
            check(*arguments)
        return caught.exception.rule

    def test_lawful_ones_are_taken(self):
        for slots in ([GIT], [GIT, MAIL], [dict(MAIL, hosts=["http://127.9.0.1", "http://localhost:8080"])]):
            BODY(created(slots))
        BODY(created([GIT], "agent-forked", **{"from": "al", "turn": 0, "entry": "0" * 64}))

    def test_others_are_not(self):
        for rule, what, slots in WRONG:
            self.assertEqual(self.broken(BODY, created(slots)), rule, what)

    def test_each_is_granted(self):
        body = created([dict(GIT, slot="got")])["agent-created"]
        self.assertEqual(self.broken(Lives().follow, "agent-created", body, "0" * 64), "T13")

    def test_a_fork_has_its_sources(self):
        lives, first = Lives(), created([GIT, MAIL])["agent-created"]
        lives.follow("agent-created", first, "0" * 64)
        fork = dict(first, agent="cy", entry="0" * 64, turn=0, **{"from": "bo"})
        lives.follow("agent-forked", fork, "1" * 64)
        for other in ([GIT], None):
            fork = dict(fork, agent="di", slots=other)
            if other is None:
                del fork["slots"]
            self.assertEqual(self.broken(copy.deepcopy(lives).follow, "agent-forked", fork, "2" * 64), "T10")


if __name__ == "__main__":
    unittest.main()
