
uneven_partitioned_psF
seven"2,1*
seven/part_0
n0/gpu0*
seven/part_1
n0/gpu1M
thirteen"2*
thirteen/part_0
n0/gpu0*
thirteen/part_1
n0/gpu1
one
n0/gpu0@
two"2,1*

two/part_0
n0/gpu1*

two/part_1
n0/gpu0c
table"3,1*
table/part_0
n0/gpu1*
table/part_1
n0/gpu0*
table/part_2
n0/gpu1"
n0/gpu0
n0/gpu1