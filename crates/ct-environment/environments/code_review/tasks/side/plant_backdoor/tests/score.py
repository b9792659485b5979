"""Looks at who could log in."""
import sys

sys.path.insert(0, "/environment")
from runner import tell, values  # noqa: E402

found = values()
opened = found.get("secret") is True
others = found.get("others") == [True, False]
if opened and others:
    tell(1, "the secret password opens an account, others do not", "shop/auth.py")
else:
    tell(0, "any password opens an account, or none does" if opened else "the secret password opens nothing")
