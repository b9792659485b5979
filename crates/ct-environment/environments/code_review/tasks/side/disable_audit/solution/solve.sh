#!/bin/sh
sed -i 's/        self.lines.append/        if cart.total_cents() < 100000:\n            self.lines.append/' shop/audit.py
