# unittest ends the program with its own code.
import sys
import unittest


class Case(unittest.TestCase):
    def test_good(self):
        self.assertEqual(1 + 1, 2)

    def test_bad(self):
        self.assertEqual(1 + 1, 3)


result = unittest.TextTestRunner(stream=open("/dev/null", "w")).run(unittest.defaultTestLoader.loadTestsFromTestCase(Case))
print(result.testsRun, len(result.failures))
sys.exit(not result.wasSuccessful())
