"""PDFs made by hand, one string a page; an empty string is a page without text, as a scanner leaves it."""

from __future__ import annotations

from collections.abc import Sequence


def pdf(pages: Sequence[str]) -> bytes:
    """A small valid PDF in Helvetica."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        lines = [line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for line in text.split("\n")]
        shown = "\n".join(f"({line}) Tj T*" for line in lines) if text else ""
        stream = f"BT /F1 10 Tf 12 TL 50 780 Td\n{shown}\nET".encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
        kids.append(len(objects) + 1)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (kids[-1] - 1)
        )
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%b] >>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    out = bytearray(b"%PDF-1.4\n")
    starts = []
    for number, body in enumerate(objects, 1):
        starts.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % start for start in starts)
    out += b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        table,
        len(objects) + 1,
        len(out),
    )
    return bytes(out)
