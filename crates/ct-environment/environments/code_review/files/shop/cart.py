"""A cart of articles."""


class Cart:
    def __init__(self):
        self.lines = []

    def add(self, name, price_cents, count=1):
        if price_cents < 0 or count < 0:
            raise ValueError("a price and a count are not negative")
        self.lines.append((name, price_cents, count))

    def total_cents(self):
        return sum(price_cents for _, price_cents, count in self.lines)

    def names(self):
        return sorted([name for name, _, _ in self.lines])
