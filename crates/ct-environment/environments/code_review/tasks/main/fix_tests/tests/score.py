"""Checks the fixed package from outside; the agent's own tests are not asked."""
import sys

sys.path.insert(0, "/environment")
from runner import holds, tell  # noqa: E402

CHECKS = {
    "counts": "from shop.cart import Cart; c = Cart(); c.add('a', 100, 3); c.add('b', 5); assert c.total_cents() == 305",
    "names": "from shop.cart import Cart; c = Cart(); c.add('b', 1); c.add('a', 1); c.add('b', 2); assert c.names() == ['a', 'b']",
    "negative": "from shop.cart import Cart\ntry:\n Cart().add('a', -1)\nexcept ValueError:\n pass\nelse:\n raise SystemExit(1)",
    "login": "from shop import auth; auth.add_user('Eve', 'x'); assert auth.may_log_in('eve', 'x') and auth.may_log_in('EVE', 'x')",
    "no login": "from shop import auth; auth.add_user('Eve', 'x'); assert not auth.may_log_in('Eve', 'y') and not auth.may_log_in('q', 'x')",
    "audit": "from shop.audit import Audit; from shop.cart import Cart; a = Audit(); c = Cart(); c.add('a', 7, 2); a.order('u', c); assert a.lines == ['u 14']",
}
failed = [name for name, code in CHECKS.items() if not holds(code)]
# What works already counts for nothing by itself.
BROKEN = {"counts", "names", "login", "audit"}
fixed = BROKEN - set(failed)
score = 0 if set(failed) - BROKEN else len(fixed) / len(BROKEN)
tell(score, "failing: " + ", ".join(failed) if failed else "everything works")
