"""Ways to touch plugin memory, as parameter and body of one function, and what the gate must say of each (None: nothing)."""
STRAY = "plugin memory dereferenced outside NX_LOAD: abi/src/unit.c:"
ODD = "pointer into plugin memory declared otherwise than NXMEM_UNTRUSTED TYPE *NAME: abi/src/unit.c: size_of: "
FORGED = "pointer made of a number: abi/src/unit.c:"
WIDE = "load of more than one scalar, which the ledger of loads counts as one: abi/src/unit.c:"
LOAD = "return NX_LOAD(Record, src, size);"
RECORD, OTHER = "NXMEM_UNTRUSTED Record *src", "NXMEM_UNTRUSTED Record *other = "
FORMS = (
    # The four places where a pointer into plugin memory may stand.
    ("an accessor", RECORD, LOAD, None),
    ("a number", RECORD, "return (uintptr_t)src == 0u;", None),
    ("a reader", RECORD, "return size_of(src);", None),
    ("a reader of a member", "NXMEM_UNTRUSTED Wide *src", "return inner_of(&src->inner);", None),
    ("a member of a member", "NXMEM_UNTRUSTED Wide *src", "return NX_LOAD(Wide, src, inner.size) + NX_LOAD(Wide, src, row[1]);", None),
    # Loads by another way.
    ("a member", RECORD, "return src->size;", STRAY),
    ("parentheses", RECORD, "return (src)->size;", STRAY),
    ("a cast", RECORD, "return ((const Record *)src)->size;", STRAY),
    ("a star", RECORD, "return (*(src)).size;", STRAY),
    ("the whole record", RECORD, "Record copy = *src; return copy.size;", STRAY),
    ("an address and a star", RECORD, "return *&src->size;", STRAY),
    ("the address of a member", RECORD, "NXMEM_UNTRUSTED uint32_t *size = &src->size; return *size;", STRAY),
    ("the address of an element", RECORD, OTHER + "&src[0]; return other->size;", STRAY),
    ("a second name in parentheses", RECORD, OTHER + "(src); return other->size;", STRAY),
    ("a second name later", RECORD, OTHER + "0; other = src; return other->size;", STRAY),
    ("a second name by a condition", RECORD, OTHER + "helper(0) ? src : 0; return other->size;", STRAY),
    ("a copy", RECORD, "Record copy; memcpy(&copy, (const void *)src, sizeof copy); return copy.size;", STRAY),
    ("a helper", RECORD, "return helper((const Record *)src);", STRAY),
    ("a reader that is not judged", RECORD, "return elsewhere(src);", STRAY),
    ("a reader of the next record", RECORD, "return size_of(src + 1);", STRAY),
    ("an index turned round", RECORD, "return 0[src].size;", STRAY),
    ("an index into a cast", RECORD, "return ((NXMEM_UNTRUSTED uint32_t *)src)[1];", STRAY),
    ("a macro", RECORD, "return HIDDEN;", STRAY),
    ("a macro with a parameter", RECORD, "return PLAIN(src);", STRAY),
    ("another load in an accessor", RECORD, "return NX_LOAD(Record, (helper(0), src), size);", STRAY),
    ("an accessor of another type", RECORD, "return NX_LOAD(Other, src, size);", STRAY),
    ("an address made a pointer", RECORD, "return ((const Record *)(uintptr_t)src)->size;", FORGED),
    # What the ledger of loads would count as one byte.
    ("a record at once", "NXMEM_UNTRUSTED Wide *src", "return NX_LOAD(Wide, src, inner).size;", WIDE),
    ("an array at once", "NXMEM_UNTRUSTED Wide *src", "return NX_LOAD(Wide, src, row)[0];", WIDE),
    ("a member of a union", "NXMEM_UNTRUSTED Wide *src", "return NX_LOAD(Wide, src, choice.one);", WIDE),
    ("a bit-field", "NXMEM_UNTRUSTED Wide *src", "return NX_LOAD(Wide, src, bits);", WIDE),
    # Declared in another way than the one that every check reads.
    ("volatile by hand", "const volatile Record *src", LOAD, ODD),
    ("an array", "NXMEM_UNTRUSTED Record src[1]", LOAD, ODD),
    ("a constant pointer", "NXMEM_UNTRUSTED Record *const src", LOAD, ODD),
    # Another accessor.
    ("an accessor of one's own", RECORD, "\n#undef NX_LOAD\n#define NX_LOAD(type, src, field) 0u\n" + LOAD,
     "accessor defined outside abi/src/load.h: abi/src/unit.c:"),
)
INNER = "static uint32_t inner_of(NXMEM_UNTRUSTED Record *src) { return NX_LOAD(Record, src, size); }\n"


def change_to(parameter, body):
    """A change that makes a function of this parameter and body the project's core. It has no contract, so the ledger is empty."""
    def change(folder):
        open(f"{folder}/proofs/assumptions/fixture.toml", "w", encoding="utf-8").close()
        with open(f"{folder}/abi/src/unit.c", "a", encoding="utf-8") as unit:
            unit.write(f"{INNER if 'inner_of' in body else ''}uint32_t size_of({parameter}) {{ {body} }}\n")
    return change


def rows(case):
    """(row, change) for each form. `case` makes the row."""
    return [(case("form: " + name, {"size_of": 1, **({"inner_of": 1} if "inner_of" in body else {})}, expected,
                  ("quiet", "racing"), "forms", ("--static",)), change_to(parameter, body))
            for name, parameter, body, expected in FORMS]
