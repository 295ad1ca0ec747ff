"""What `show()` of a library does where there is no screen: a picture or a page becomes a file in /data.

Pages have all that they need within them: nobody says that who opens one has the network.
"""

from _sandbox_display import next_free_file


def fit_pillow(image_show):
    """Have `Image.show()` save a picture, as a viewer that always succeeds."""

    class Viewer(image_show.Viewer):
        def show_image(self, image, **options):
            if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
                image = image.convert("RGB")
            with next_free_file("image", "png") as file:
                image.save(file, "PNG")
            return 1

    image_show.register(Viewer, 0)


# Those of plotly that write what they are asked for, and fail if they cannot.
WRITERS = ("json", "png", "jpeg", "jpg", "svg", "pdf")


def fit_plotly(renderers):
    """Make pages, whichever kind of notebook a program thinks that it is in. Pictures of plotly's figures need a browser,
    which is not here."""

    class Renderer(renderers.ExternalRenderer):
        def render(self, figure):
            from IPython.display import display
            from plotly.io import to_html

            page = to_html(figure, include_plotlyjs=True, full_html=True, validate=False)
            display({"text/html": page}, raw=True)

    ours = Renderer()
    for name in {"sandbox", *renderers.renderers} - {*WRITERS}:
        renderers.renderers[name] = ours
    renderers.renderers.default = "sandbox"

    perform = type(renderers.renderers)._perform_external_rendering

    def once(self, figure, renderers_string=None, **settings):
        # Some names are two, such as "colab+notebook", and are ours both.
        names = (renderers_string or self.default).split("+")
        wanted = {name if name in WRITERS else "sandbox" for name in names}
        return perform(self, figure, "+".join(sorted(wanted)), **settings)

    type(renderers.renderers)._perform_external_rendering = once


def fit_offline_plotly(offline):
    """Notebooks are prepared for what follows: here it comes along with each page."""
    offline.init_notebook_mode = lambda *args, **kwargs: None


def fit_bokeh(output):
    """Show pages in a notebook as well: there, bokeh would rely on scripts that are part of the notebook."""
    output.output_notebook = lambda *args, **kwargs: None


def fit_altair(altair):
    """Draw charts as pictures. Without what does that they are pages which load their scripts from elsewhere."""
    import importlib.util

    if importlib.util.find_spec("vl_convert") is not None:
        altair.renderers.enable("png", scale_factor=2)


