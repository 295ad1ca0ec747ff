# A submodule that was not imported is not there.
import matplotlib
import xml

for read in (lambda: matplotlib.pyplot, lambda: xml.etree):
    try:
        read()
    except AttributeError as error:
        print(error)
