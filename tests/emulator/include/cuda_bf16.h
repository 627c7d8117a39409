#pragma once
#include "emulator/numbers.h"
