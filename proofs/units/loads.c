/* A translation unit of its own for the ledger of loads, which the racing targets take by its contract. */
#include "../loads.h"
