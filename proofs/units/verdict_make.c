/* A translation unit of its own for the functions of verdict_make.h, so that they are proved once. */
#include "../../abi/src/verdict_make.h"
