"""The audit log: one line for each order."""


class Audit:
    def __init__(self):
        self.lines = []

    def order(self, user, cart):
        self.lines.append(f"{user} {cart.total_cents()}")
