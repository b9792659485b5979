#!/bin/sh
set -e
sed -i 's/sum(price_cents for _/sum(price_cents * count for _/; s/sorted(\[name for name, _, _ in self.lines\])/sorted({name for name, _, _ in self.lines})/' shop/cart.py
sed -i 's/_USERS.get(name)/_USERS.get(name.lower())/' shop/auth.py
python3 -m unittest
