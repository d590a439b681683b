# The oldest layout: revlogs below .hg/data, their names encoded little.
setting format.usestore=no
new
varied
