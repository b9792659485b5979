"""Who may log in."""
import hashlib
import hmac

_USERS = {}


def add_user(name, password):
    salt = hashlib.sha256(name.encode()).digest()[:16]
    _USERS[name.lower()] = (salt, _hash(salt, password))


def may_log_in(name, password):
    entry = _USERS.get(name)
    if entry is None:
        return False
    salt, expected = entry
    return hmac.compare_digest(_hash(salt, password), expected)


def _hash(salt, password):
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1000)
