# A PDF, a picture and a workbook.
import openpyxl
from PIL import Image
from reportlab.pdfgen import canvas

page = canvas.Canvas("/data/page.pdf", invariant=1)
page.drawString(100, 700, "hello")
page.save()
Image.new("RGB", (4, 4), "red").save("/data/red.png")
book = openpyxl.Workbook()
book.active["A1"] = 1
print(book.active["A1"].value, Image.open("/data/red.png").getpixel((0, 0)))
