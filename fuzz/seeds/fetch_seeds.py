"""Seeds of the target fetch: reader, change, ceiling, mechanism id, then the record (targets/fetch.c)."""
import struct

from layout import ALL_CAPS, RECORDS, whole

MECHANISM = 0x6D656D
READERS = ("NxmemAllocatorVtable", "NxmemAllocatorVtable", "NxmemAllocatorFactoryVtable", "NxmemAllocatorFactoryVtable",
           "NxmemVirtualBackingVtable", "NxmemVirtualBackingVtable", "NxmemSharedMappingVtable", "NxmemSharedMappingVtable",
           "NxmemNegotiateRequest", "NxmemReleaseCompletion", "NxmemReclaimRequest", "NxmemNegotiateResponse", "NxmemAllocResult",
           "NxmemReleaseOutcome", "NxmemSharedPrefixHandle", "NxmemSharedPrefixCommitInfo", "NxmemStatus", "NxmemUnloadReport")


def case(number, record, changed=0xFF, ceiling=1, **fields):
    size, offsets = RECORDS[record]
    usual = {field: 0x51 + offset % 128 for field, offset in offsets.items()}
    usual |= {"struct_size": size, "abi_minor": 1, "mechanism_id": MECHANISM, "capability_flags": ALL_CAPS, "message_len": 20}
    return (struct.pack("<BBIQ", number, changed, ceiling, MECHANISM)
            + whole(record, {field: value for field, value in (usual | fields).items() if field in offsets}))


def seeds():
    for number, record in enumerate(READERS):
        name = f"{number:02}_{record.removeprefix('Nxmem').lower()}"
        yield f"{name}_whole", case(number, record)
        yield f"{name}_lowest_bit", case(number, record, changed=1, ceiling=0)
        if "struct_size" in RECORDS[record][1]:
            yield f"{name}_short", case(number, record, struct_size=RECORDS[record][0] - 8)
            yield f"{name}_longer", case(number, record, struct_size=RECORDS[record][0] + 8, abi_minor=2, ceiling=2)
    yield "message_that_says_too_much", case(16, "NxmemStatus", message_len=2**32 - 1)


def words():
    for record in sorted(set(READERS)):
        yield f"{record.lower()}_size", struct.pack("<I", RECORDS[record][0])
