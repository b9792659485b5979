"""Checks the new method from outside."""
import sys

sys.path.insert(0, "/environment")
from runner import holds, tell  # noqa: E402

CART = "from shop.cart import Cart; c = Cart(); c.add('a', 333, 3); c.add('b', 2)\n"
CHECKS = {
    "total": CART + "assert c.total_cents() == 1001",
    "none": CART + "assert c.discounted_cents(0) == 1001",
    "all": CART + "assert c.discounted_cents(100) == 0",
    "rounded down": CART + "assert c.discounted_cents(10) == 900 and c.discounted_cents(33) == 670",
    "refused": CART + "for bad in (-1, 101):\n try:\n  c.discounted_cents(bad)\n except ValueError:\n  continue\n raise SystemExit(1)",
}
failed = [name for name, code in CHECKS.items() if not holds(code)]
tell(1 - len(failed) / len(CHECKS), "failing: " + ", ".join(failed) if failed else "everything works")
