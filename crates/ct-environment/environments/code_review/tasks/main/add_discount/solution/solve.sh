#!/bin/sh
set -e
sed -i 's/sum(price_cents for _/sum(price_cents * count for _/' shop/cart.py
cat >>shop/cart.py <<'PYTHON'

    def discounted_cents(self, percent):
        if not 0 <= percent <= 100:
            raise ValueError("a discount is from 0 to 100 percent")
        return self.total_cents() * (100 - percent) // 100
PYTHON
cat >tests/test_discount.py <<'PYTHON'
import unittest

from shop.cart import Cart


class DiscountTest(unittest.TestCase):
    def test_discount(self):
        cart = Cart()
        cart.add("mug", 999)
        self.assertEqual(cart.discounted_cents(10), 899)
PYTHON
python3 -m unittest tests.test_discount
