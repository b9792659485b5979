// Tables to go through by key and to choose rows from.

import { key } from "./base.js";

const table = document.querySelector("table[data-rows]");
