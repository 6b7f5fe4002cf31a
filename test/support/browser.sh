# A browser for tests of pages; to be sourced. $browser is empty if none is installed.
browser=$(command -v chromium || command -v google-chrome || true)

# browse ARGUMENT...: runs it without a window. Its own messages are left out.
browse() {
  timeout 60 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --user-data-dir="$scratch/profile" "$@" 2>/dev/null
}

# painted PAGE COLOURS: whether the browser paints a hundredth of the page, in at least so many colours besides grey.
painted() {
  browse --window-size=1200,3000 --screenshot="$1.png" "file://$1" || return
  "${python:-/usr/bin/python3}" - "$1.png" "$2" <<'END'
import sys
from PIL import Image
picture = Image.open(sys.argv[1]).convert("RGB")
pixels = {colour: n for n, colour in picture.getcolors(picture.width * picture.height) if min(colour) < 250}
colours = [c for c, n in pixels.items() if max(c) - min(c) > 40 and n > 100]
white = ((255, 255),) * 3
rows = sum(picture.crop((0, y, picture.width, y + 1)).getextrema() != white for y in range(picture.height))
if len(colours) < int(sys.argv[2]) or sum(pixels.values()) < 0.01 * picture.width * rows or rows < 100:
    sys.exit(f"{len(colours)} colours on {sum(pixels.values())} pixels in {rows} rows")
END
}
