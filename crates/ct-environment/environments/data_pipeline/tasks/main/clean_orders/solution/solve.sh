#!/bin/sh
{
    echo order,customer,amount
    tail -q -n +2 incoming/*.csv | awk -F, '$2 != "" && $3 ~ /^[0-9.]+$/ && $3 > 0' | sort -u
} >clean.csv
