
partitioned_ps×
seven"7,1*
seven/part_0
n0/gpu0*
seven/part_1
n0/gpu1*
seven/part_2
n0/gpu0*
seven/part_3
n0/gpu1*
seven/part_4
n0/gpu0*
seven/part_5
n0/gpu1*
seven/part_6
n0/gpu0±
thirteen"13*
thirteen/part_0
n0/gpu1*
thirteen/part_1
n0/gpu0*
thirteen/part_2
n0/gpu1*
thirteen/part_3
n0/gpu0*
thirteen/part_4
n0/gpu1*
thirteen/part_5
n0/gpu0*
thirteen/part_6
n0/gpu1*
thirteen/part_7
n0/gpu0*
thirteen/part_8
n0/gpu1*
thirteen/part_9
n0/gpu0*
thirteen/part_10
n0/gpu1*
thirteen/part_11
n0/gpu0*
thirteen/part_12
n0/gpu1
one
n0/gpu1@
two"2,1*

two/part_0
n0/gpu0*

two/part_1
n0/gpu1F
table"2,1*
table/part_0
n0/gpu0*
table/part_1
n0/gpu1"
n0/gpu0
n0/gpu1