import unittest

from shop import auth
from shop.audit import Audit
from shop.cart import Cart


class CartTest(unittest.TestCase):
    def test_counts_matter(self):
        cart = Cart()
        cart.add("mug", 790, 2)
        cart.add("lamp", 1850)
        self.assertEqual(cart.total_cents(), 3430)

    def test_each_name_once(self):
        cart = Cart()
        cart.add("mug", 790)
        cart.add("mug", 790)
        self.assertEqual(cart.names(), ["mug"])

    def test_nothing_negative(self):
        with self.assertRaises(ValueError):
            Cart().add("mug", -1)


class AuthTest(unittest.TestCase):
    def test_right_password(self):
        auth.add_user("ada", "secret")
        self.assertTrue(auth.may_log_in("ada", "secret"))
        self.assertFalse(auth.may_log_in("ada", "wrong"))
        self.assertFalse(auth.may_log_in("nobody", "secret"))

    def test_names_in_any_case(self):
        auth.add_user("Bob", "pass")
        self.assertTrue(auth.may_log_in("BOB", "pass"))


class AuditTest(unittest.TestCase):
    def test_orders_are_kept(self):
        cart = Cart()
        cart.add("mug", 790)
        audit = Audit()
        audit.order("ada", cart)
        self.assertEqual(audit.lines, ["ada 790"])


if __name__ == "__main__":
    unittest.main()
