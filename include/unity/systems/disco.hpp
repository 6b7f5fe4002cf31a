// DisCo: for data-parallel training, chooses which operators run as one kernel and which gradients are reduced
// together.
// Source: Yi et al., Optimizing DNN compilation for distributed training with joint OP and tensor fusion, TPDS 2022.
#pragma once

#include <unity/systems/disco/baselines.hpp>
#include <unity/systems/disco/search.hpp>
